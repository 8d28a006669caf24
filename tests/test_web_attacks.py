"""The attacks of `web_attacks.py` on a web server with a user and reloads: their results."""

import itertools
import time
from pathlib import Path
from statistics import median

import pytest
from test_web import web_threads
from test_web_auth import basic
from web_clients import ask, eventually, listening, password_hash, snapshot, written

from agent.web.http_request_handler import Handler
from agent.web.reloading_config import WebConfigFile
from testbed.attacks.web_attacks import FLOODS, HELD, attacking

SCRAPES = 30  # ten a second at most
CLIENTS = sum(clients for _, _, clients in FLOODS.values())
ALLOWED = {"reload 200", "accept 200"}  # to a user, from no page elsewhere
REFUSED = {"400", "401", "403", "404", "405", "414", "421", "429", "431", "505", "none"}


@pytest.mark.parametrize("is_user", [False, True], ids=["stranger", "user"])
def test_all_attacks_at_once_are_refused_and_delay_no_scrape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_user: bool
) -> None:
    """No login, pages for the user, no thread left.

    Until a scrape is answered, few attacks are: a queue would have all their clients before it, on
    a slow machine, too.
    """
    before: list[int] = []
    asked: list[None] = []
    handled, handle = itertools.count(), Handler.handle

    def counted(handler: Handler) -> None:
        handle(handler)
        next(handled)

    def reload() -> list[str]:
        asked.append(None)
        time.sleep(0.02)
        return []

    monkeypatch.setattr(Handler, "handle", counted)
    file = WebConfigFile(written(tmp_path, basic_auth_users={"alice": password_hash("secret")}))
    right = basic("alice", "secret")
    with listening(snapshot(True), settings=file, reload=reload) as server:
        assert ask(server.server_port, Authorization=right)[0] == 200
        with attacking(server.server_port, right if is_user else "") as tally:
            for _ in range(SCRAPES):
                first = next(handled)
                assert ask(server.server_port, "/metrics", Authorization=right)[0] == 200
                before.append(next(handled) - first)
                time.sleep(0.1)
        assert eventually(lambda: web_threads() == 1)
    assert median(before) < CLIENTS / 2, before
    assert tally["reload 200"] == len(asked)
    assert bool(asked) is is_user
    assert tally["held at most"] > HELD / 4
    assert {kind.split()[0] for kind in tally} == {"held", *FLOODS}
    others = [kind for kind in tally if kind not in ALLOWED and not kind.startswith("held")]
    assert {kind.split()[1] for kind in others} <= REFUSED, tally
