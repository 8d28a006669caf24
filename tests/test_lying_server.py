"""Servers that lie to a collector: every answer has a limit, and its failure is of a kind."""

import time
from collections.abc import Iterator

import pytest

from collectors import COLLECTORS
from collectors.base import CollectorError, Sample
from collectors.connection import Connection, Login
from collectors.digests import DigestValues
from collectors.endpoint import Endpoint
from testbed.attacks.false_answers import GREETINGS, LIES, LOGINS
from testbed.attacks.lying_server import DIGEST, LyingServer

TIMEOUT = 5.0
ON_SERVER = [spec for spec in COLLECTORS if spec.on_server]


def connected(server: LyingServer) -> Connection:
    """A session that is yet to be opened."""
    endpoint = Endpoint(port=server.port)
    return Connection(endpoint, lambda: Login("headroom", "Qz7"), timeout=TIMEOUT, limit=1)


def failures(server: LyingServer) -> Iterator[CollectorError]:
    """Connect, prepare and read every collector twice; what went wrong."""
    connection = connected(server)
    with suppress_failure() as failed:
        connection.open()
    yield from failed
    for spec in ON_SERVER:
        if not connection.is_open:
            break
        with suppress_failure() as failed:
            prepared = spec.prepare(connection)
            for _ in range(2):
                values = prepared.read() if prepared.read else {}
                Sample(spec.name, 1.0, values)
        yield from failed
    connection.close()


class suppress_failure:  # noqa: N801
    """Takes a `CollectorError`, and no other exception."""

    def __enter__(self) -> list[CollectorError]:
        """The list of what it takes."""
        self._taken: list[CollectorError] = []
        return self._taken

    def __exit__(self, kind: object, raised: BaseException | None, trace: object) -> bool:
        """Keep it."""
        if isinstance(raised, CollectorError):
            self._taken.append(raised)
            return True
        return False


def test_an_honest_server_is_read() -> None:
    """So that a failure below is caused by the false answer."""
    with LyingServer() as server:
        assert list(failures(server)) == []
        connection = connected(server)
        connection.open()
        read = {spec.name: spec.prepare(connection).read for spec in ON_SERVER}
        values = {name: found() for name, found in read.items() if found}
        connection.close()
    assert set(values) == {spec.name for spec in ON_SERVER}
    assert values["status"]["threads_running"] == 2
    found = values["digests"]
    assert isinstance(found, DigestValues)
    assert list(found.rows.keys) == [f"1700000000.000001|{DIGEST}|=shop"]


@pytest.mark.parametrize("name", LIES)
def test_a_false_answer_is_a_failure_with_a_kind(name: str) -> None:
    """No other exception, within the time limit, and the next session works."""
    lies, kinds = LIES[name]
    with LyingServer(lies) as server:
        begun = time.monotonic()
        found = {failure.kind for failure in failures(server)}
        assert time.monotonic() - begun < 2 * TIMEOUT
        assert found == kinds
        server.lies.clear()
        assert list(failures(server)) == []


@pytest.mark.parametrize("name", GREETINGS)
def test_a_greeting_is_limited(name: str) -> None:
    """Whatever comes before the login is a failure with a kind, in one short line."""
    with LyingServer(greeting=GREETINGS[name]) as server:
        [failure] = failures(server)
    assert len(str(failure)) < 400
    assert str(failure).isprintable()


@pytest.mark.parametrize("name", LOGINS)
def test_a_login_is_limited_in_time(name: str) -> None:
    """A server that never ends it costs no more than a timeout."""
    with LyingServer(login=LOGINS[name]) as server:
        begun = time.monotonic()
        assert list(failures(server))
        assert time.monotonic() - begun < 2 * TIMEOUT
