"""What the service manager is told, over a real datagram socket, and the line for people."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import WAVES, intervals, known

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
    """At a path or an abstract name, in the words of sd_notify(3)."""
    notifier = Notifier(environment(manager))
    for tell, text in (
        (notifier.ready, "READY=1"),
        (notifier.ping_watchdog, "WATCHDOG=1"),
        (notifier.stopping, "STOPPING=1"),
    ):
        tell()
        assert received(manager) == text


def test_a_reload_says_when_it_began(manager: socket.socket) -> None:
    """On the clock that the manager compares with its own."""
    before = time.monotonic_ns() // 1000
    Notifier(environment(manager)).reloading()
    word, stamp = received(manager).split("\n")
    assert word == "RELOADING=1"
    assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_a_status_is_one_line_and_sent_when_it_changes(manager: socket.socket) -> None:
    """A line break in an error cannot become another message."""
    notifier = Notifier(environment(manager))
    for text in ("one\nREADY=1", "one READY=1", "two"):
        notifier.status(text)
    assert [received(manager), received(manager)] == ["STATUS=one READY=1", "STATUS=two"]


def test_a_status_is_never_too_long_for_the_manager(manager: socket.socket) -> None:
    """Of whatever characters it is made, systemd reads no more than 4096 bytes."""
    Notifier(environment(manager)).status("1 down (" + "ü€" * 2000 + ")")
    message = manager.recv(2**16)
    assert len(message) < 4096
    assert message.decode().startswith("STATUS=1 down (ü€")


def test_nobody_who_listens_is_no_failure(tmp_path: Path) -> None:
    """Without a manager, with one that is gone, or with an address of another kind: silence."""
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
def test_the_watchdog_is_ours_or_nobodys(settings: dict[str, str], seconds: float | None) -> None:
    """One that was meant for another process, or that cannot be read, is none."""
    assert Notifier({"NOTIFY_SOCKET": "@x", **settings}).watchdog_seconds == seconds


def snapshot(name: str, up: bool | None, error: str = "", *, trusted: bool = False) -> Snapshot:
    """A target in that state."""
    health = Health(up=up, collectors=(CollectorHealth("status", up, last_error=error),))
    fitted = (
        replace(known(intervals(WAVES)).assessed, at=NOW) if trusted else AssessmentState(at=NOW)
    )
    return Snapshot(name, NOW, 60.0, health, None, fitted)


def test_the_status_line_counts_and_names_what_is_down() -> None:
    """Who reads it knows how many, which and why."""
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
