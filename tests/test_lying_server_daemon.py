"""Lying servers beside an honest one: the agent stays small, quick and ready, and ends in time."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.demo.private_server import PrivateServer
from testbed.attacks.false_answers import GREETINGS, LIES, LOGINS
from testbed.attacks.lying_server import LyingServer
from testbed.real.clients import run_as_root
from testbed.real.daemon import COLLECTORS, Daemon, target, wait_until, watching
from testbed.real.server_account import least_account

OFTEN = {**COLLECTORS, "digests": {"interval": "500ms"}}
LASTS = 8.0  # seconds of lies
MAX_MEMORY = 150  # MiB
MAX_PAGE, MAX_LOG = 300_000, 200_000  # bytes
ALL: dict[str, dict[str, Any]] = {
    **{name: {"lies": lies} for name, (lies, _) in LIES.items()},
    **{f"greeting: {name}": {"greeting": said} for name, said in GREETINGS.items()},
    **{f"login: {name}": {"login": said} for name, said in LOGINS.items()},
}


def peak(agent: Daemon) -> float:
    """The most memory that it ever held, in MiB."""
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def lying_target(folder: Path, server: LyingServer, name: str) -> dict[str, Any]:
    """A liar as a target."""
    (folder / f"{name}.password").write_text("Qz7")
    login = {"user": "headroom", "password_file": str(folder / f"{name}.password")}
    return {"name": name, "host": "127.0.0.1", "port": server.port, "timeout": "1s", **login}


@contextmanager
def all_liars(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """One of each kind, as targets."""
    with ExitStack() as stack:
        servers = [stack.enter_context(LyingServer(**lies)) for lies in ALL.values()]
        yield [lying_target(folder, server, f"liar{n}") for n, server in enumerate(servers)]


@pytest.mark.live
def test_false_answers_affect_no_other_target(
    mariadb_without_schema: PrivateServer, tmp_path: Path
) -> None:
    """The honest target is read all along, pages stay short, memory stays below 150 MiB."""
    calm = target(tmp_path, mariadb_without_schema, name="calm")
    with all_liars(tmp_path) as liars, watching(tmp_path, calm, *liars) as agent:
        wait_until("ready", lambda: is_ready(agent), 30)
        begun = time.monotonic()
        wait_until("lied to", lambda: time.monotonic() > begun + LASTS, LASTS + 5)
        page, most = agent.page, peak(agent)
        assert is_ready(agent)
        samples = agent.seen("last_sample_timestamp_seconds", since=begun, target="calm")
    print(f"peak RSS beside {len(liars)} liars: {most:.0f} MiB; page {len(page.text):,} bytes")
    assert page.get("up", target="calm") == 1
    assert page.get("collector_failures_total", target="calm", collector="status") is None
    assert len(set(samples)) >= 0.75 * LASTS  # a page a second
    assert most < MAX_MEMORY
    assert len(page.text) < MAX_PAGE + 3000 * len(liars)
    assert len(agent.log) < MAX_LOG


def is_ready(agent: Daemon) -> bool:
    """Return whether /-/ready answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


SURROGATE = b"SET NAMES utf8mb4", b"SELECT 1 AS `\xed\xa0\x80`"


@pytest.mark.live
def test_invalid_utf_8_in_a_digest_does_not_stop_the_target(
    mariadb_server: PrivateServer, tmp_path: Path
) -> None:
    """As any user can write; the target stays up."""
    account = least_account(mariadb_server)
    run_as_root(mariadb_server, "CREATE OR REPLACE USER nobody@localhost")
    watched = target(tmp_path, mariadb_server, account)
    with watching(tmp_path, watched, collectors=OFTEN) as agent:
        wait_until("reads digests", lambda: agent.get("collector_success", collector="digests"))
        begun = time.monotonic()
        connection = mariadb_server.connect_as_root()
        try:
            connection.close()
            connection.user = b"nobody"
            connection.connect()
            for statement in SURROGATE:
                with suppress(UnicodeDecodeError):  # the library reads the name that it gave itself
                    connection.query(statement)
        finally:
            connection.close()
        wait_until("ten readings", lambda: time.monotonic() > begun + 6, 10)
        page = agent.page
        assert set(agent.seen("up", since=begun)) == {1.0}
    assert page.get("connects_total") == 1
    assert page.get("collector_success", collector="digests") == 1
    assert page.all("collector_failures_total") == []


@pytest.mark.live
def test_more_targets_than_the_soft_limit_of_files_are_watched(tmp_path: Path) -> None:
    """Shells and systemd limit a process to 1,024 files at first, and each session takes one."""
    limited = ("sh", "-c", 'ulimit -S -n 48 && exec "$@"', "sh")
    with LyingServer() as server:
        targets = [lying_target(tmp_path, server, f"db{number}") for number in range(60)]
        with watching(tmp_path, *targets, prefix=limited) as agent:
            wait_until("all are up", lambda: agent.page.all("up") == [1.0] * 60, 30)
