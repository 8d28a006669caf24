"""What the service manager is told, over a real datagram socket, and the line for people."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from law_windows import WAVES, intervals, known

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.sampling.collector_health import CollectorHealth
from agent.service.status_line import status_line
from agent.service.systemd_notify import Notifier

NOW = 1_700_000_000.0


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """One that listens, at a path or an abstract name."""
    name = f"\0hr-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        listener.settimeout(2)
        yield listener


def environment(manager: socket.socket) -> dict[str, str]:
    """As the manager writes its own address."""
    name = manager.getsockname()
    return {"NOTIFY_SOCKET": "@" + name[1:].decode() if isinstance(name, bytes) else name}


def received(manager: socket.socket) -> str:
    """The next message."""
    return manager.recv(4096).decode()


def test_each_message_is_a_datagram(manager: socket.socket) -> None:
    """To a path or an abstract name, in the format of sd_notify(3)."""
    notifier = Notifier(environment(manager))
    for tell, text in (
        (notifier.ready, "READY=1"),
        (notifier.ping_watchdog, "WATCHDOG=1"),
        (notifier.stopping, "STOPPING=1"),
    ):
        tell()
        assert received(manager) == text


def test_a_reload_carries_its_start_time(manager: socket.socket) -> None:
    """On CLOCK_MONOTONIC, with which the manager compares it."""
    before = time.monotonic_ns() // 1000
    Notifier(environment(manager)).reloading()
    word, stamp = received(manager).split("\n")
    assert word == "RELOADING=1"
    assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_a_status_is_one_line_and_sent_when_it_changes(manager: socket.socket) -> None:
    """A line break in an error message cannot become another message."""
    notifier = Notifier(environment(manager))
    for text in ("one\nREADY=1", "one READY=1", "two"):
        notifier.status(text)
    assert [received(manager), received(manager)] == ["STATUS=one READY=1", "STATUS=two"]


def test_a_long_status_is_cut_below_the_managers_limit(manager: socket.socket) -> None:
    """Whatever its characters; systemd reads at most 4096 bytes."""
    Notifier(environment(manager)).status("1 down (" + "ü€" * 2000 + ")")
    message = manager.recv(2**16)
    assert len(message) < 4096
    assert message.decode().startswith("STATUS=1 down (ü€")


def test_a_missing_service_manager_is_no_failure(tmp_path: Path) -> None:
    """Without one, with one that has ended, or with an invalid address nothing fails."""
    for address in ("", str(tmp_path / "gone"), "vsock:2:1234"):
        Notifier({"NOTIFY_SOCKET": address}).ready()


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_ignored_unless_it_is_for_this_process(
    settings: dict[str, str], seconds: float | None
) -> None:
    """One for another process, or an unreadable one, is none."""
    assert Notifier({"NOTIFY_SOCKET": "@x", **settings}).watchdog_seconds == seconds


def snapshot(name: str, up: bool | None, error: str = "", *, trusted: bool = False) -> Snapshot:
    """A target in that state."""
    health = Health(up=up, collectors=(CollectorHealth("status", up, last_error=error),))
    fitted = (
        replace(known(intervals(WAVES)).assessed, at=NOW) if trusted else AssessmentState(at=NOW)
    )
    return Snapshot(name, NOW, 60.0, health, None, fitted)


def test_the_status_line_counts_targets_and_names_those_down() -> None:
    """With the reason of each."""
    targets = [
        snapshot("a", True, trusted=True),
        snapshot("b", True, trusted=True),
        snapshot("c", False, "no answer from c"),
    ]
    text = "watching 3 servers: 2 up, 1 down (c: no answer from c); 2 trusted predictions"
    assert status_line(targets, NOW) == text
    assert status_line(targets[:1], NOW) == "watching 1 server: 1 up; 1 trusted prediction"
    assert status_line(targets[:1], NOW + 100).endswith("1 up; no trusted predictions")
    new = "watching 1 server: 1 not tried yet; no trusted predictions"
    assert status_line([snapshot("new", None)], NOW) == new
