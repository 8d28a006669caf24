"""One look at a server: nothing of what was read on the way is lost, however long it takes."""

import time
from pathlib import Path

import pytest
from test_scheduled_collector import failing

from agent.config.loader import load_config
from agent.demo.private_server import PrivateServer
from agent.query_classes.class_intervals import MAX_WAITING, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.one_off_profile import (
    THREAD_SAMPLES,
    observe_classes,
    read_once,
    sample_threads_until,
    send_statements_once,
)
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Prepared, Values
from collectors.connection import Connection, Login
from collectors.digests import DigestReader
from collectors.endpoint import Endpoint
from testbed.real.clients import Clients
from testbed.real.daemon import target, write_config


@pytest.mark.live
def test_a_long_profile_keeps_every_reading(server: PrivateServer, tmp_path: Path) -> None:
    """Also more than may wait at once, with texts and own statements from the first ones on."""
    file, _ = write_config(tmp_path, target(tmp_path, server))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(0.0 if len(pauses) <= 3 * MAX_WAITING * THREAD_SAMPLES else seconds)

    with Clients(server, "SELECT SLEEP(0.01) AS looked_at_for_long", pace=0.05):
        observed = observe_classes(load_config(file).targets[0], 8.0, pause=pause)
    assert len(observed.intervals) >= 0.9 * len(pauses) / THREAD_SAMPLES - 2
    assert observed.intervals.texts is not None
    assert any("looked_at_for_long" in (text or "") for text in observed.intervals.texts)
    assert any(observed.registry.is_own(key) for key in observed.registry.keys)


def test_a_reading_aborted_by_the_server_does_not_end_the_profile() -> None:
    """The other sources of that second are still read; any other failure is raised."""
    read = list[str]()

    def status() -> Values:
        read.append("status")
        return {"uptime": 5.0}

    maker = ClassIntervalMaker(ClassRegistry())
    readers = {"digests": failing(FailureKind.SLOW), "status": status}
    found = read_once(readers, maker)
    assert found is not None
    assert found.kind is FailureKind.SLOW
    assert read == ["status", "status"]
    assert read_once({"status": status}, maker) is None
    with pytest.raises(CollectorError, match="it is lost"):
        read_once({"digests": failing(FailureKind.LOST)}, maker)


def test_an_aborted_thread_sample_does_not_end_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads are sampled evenly between two readings; any other failure is raised."""
    reader, looked, now = object.__new__(DigestReader), list[float](), [50.0]
    kinds = [None, FailureKind.SLOW, None, FailureKind.LOST]

    def look(_: DigestReader) -> None:
        looked.append(now[0])
        if kind := kinds[len(looked) - 1]:
            failing(kind)()

    def pause(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(DigestReader, "sample_threads", look)
    monkeypatch.setattr("agent.query_classes.one_off_profile.time.monotonic", lambda: now[0])
    found = sample_threads_until(50.4, {"digests": reader}, pause)
    assert found is not None
    assert found.kind is FailureKind.SLOW
    assert looked == pytest.approx([50.1, 50.2, 50.3])
    assert now[0] == pytest.approx(50.4)
    with pytest.raises(CollectorError, match="it is lost"):
        sample_threads_until(50.5, {"digests": reader}, pause)


def unneeded(kind: FailureKind | None, *, at_once: bool) -> CollectorSpec:
    """A collector whose statements fail like this, as it is prepared or as it reads."""

    def prepare(connection: Connection) -> Prepared:
        del connection
        if at_once and kind is not None:
            failing(kind)()
        return Prepared(failing(kind) if kind else dict, ())

    return CollectorSpec("statements", prepare, 1.0, on_server=True)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("kind", [None, *FailureKind])
def test_an_optional_collector_does_not_end_the_profile(
    kind: FailureKind | None, at_once: bool
) -> None:
    """Whatever the server answers to its statements, unless the session is lost."""
    connection = Connection(Endpoint(port=1), lambda: Login("u", "p"), timeout=1, limit=1)
    spec = unneeded(kind, at_once=at_once)
    if kind is not None and kind.ends_session:
        with pytest.raises(CollectorError, match=f"it is {kind}"):
            send_statements_once(spec, connection)
    else:
        send_statements_once(spec, connection)
