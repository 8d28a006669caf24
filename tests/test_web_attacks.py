"""The attacks of `web_attacks.py` on a web server with a user and reloads: their results."""

import time
from pathlib import Path

import pytest
from test_web import web_threads
from test_web_auth import basic
from web_clients import ask, eventually, listening, password_hash, snapshot, written

from agent.web.reloading_config import WebConfigFile
from testbed.attacks.web_attacks import FLOODS, HELD, attacking

LASTS = 3.0  # seconds
ALLOWED = {"reload 200", "accept 200"}  # to a user, from no page elsewhere
REFUSED = {"400", "401", "403", "404", "405", "414", "421", "429", "431", "505", "none"}


@pytest.mark.parametrize("is_user", [False, True], ids=["stranger", "user"])
def test_all_attacks_at_once_are_refused_and_delay_no_scrape(tmp_path: Path, is_user: bool) -> None:
    """No login, pages for the user, scrapes within a second, no thread left."""
    took, asked = [], []

    def reload() -> list[str]:
        asked.append(time.monotonic())
        time.sleep(0.02)
        return []

    file = WebConfigFile(written(tmp_path, basic_auth_users={"alice": password_hash("secret")}))
    right = basic("alice", "secret")
    with listening(snapshot(True), settings=file, reload=reload) as server:
        assert ask(server.server_port, Authorization=right)[0] == 200
        with attacking(server.server_port, right if is_user else "") as tally:
            ends = time.monotonic() + LASTS
            while time.monotonic() < ends:
                started = time.monotonic()
                assert ask(server.server_port, "/metrics", Authorization=right)[0] == 200
                took.append(time.monotonic() - started)
                time.sleep(0.1)
        assert eventually(lambda: web_threads() == 1)
    assert sorted(took)[len(took) // 2] < 1.0
    assert tally["reload 200"] == len(asked)
    assert bool(asked) is is_user
    assert tally["held at most"] > HELD / 4
    assert {kind.split()[0] for kind in tally} == {"held", *FLOODS}
    others = [kind for kind in tally if kind not in ALLOWED and not kind.startswith("held")]
    assert {kind.split()[1] for kind in others} <= REFUSED, tally
