"""The table of faults of an agent's surroundings: its clock, and the clients of its pages."""

import socket
import time
from contextlib import suppress
from typing import Any

from faults import AT_ONCE, Act, Fault, Scene, suspend
from set_clock import set_ahead

from testbed.real.daemon import wait_until

HOUR = 3600.0
HALF_OPEN, SLOW, DEAF = 50, 200, 50  # web clients
BUSY = 10  # seconds that their coming may cost where other programs fill the processors
ELSEWHERE = ("127.0.0.2", 0)  # where they come from: a crowd pushes out its own first
PEACE: dict[str, Any] = {"up": 1, "unbroken": True, "back_within": AT_ONCE}
BY_ANOTHER_CLOCK: dict[str, Any] = {
    "up": 1,
    "in_step": False,
    "lasts": 4,
    "back_within": AT_ONCE,
}
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"  # all but its last line


def crowd(size: int, begin: bytes) -> Act:
    """Open that many web connections that send this, and then neither send, read nor close."""

    def come(scene: Scene) -> None:
        for _ in range(size):
            there = ("127.0.0.1", scene.agent.port)
            client = socket.create_connection(there, 20, source_address=ELSEWHERE)
            scene.crowd.append(client)
            with suppress(OSError):  # pushed out already
                client.sendall(begin)

    return come


def disperse(scene: Scene) -> None:
    """Close them."""
    while scene.crowd:
        scene.crowd.pop().close()


def set_clock(ahead: float) -> Act:
    """Set the agent's wall clock that many seconds ahead of this machine's."""

    def set_and_wait(scene: Scene) -> None:
        set_ahead(scene.clock, ahead)
        goes_by(scene, ahead)

    return set_and_wait


def suspend_machine(ahead: float) -> Act:
    """Suspend the agent, and advance only its wall clock meanwhile."""

    def sleep(scene: Scene) -> None:
        suspend(scene, lambda scene: set_ahead(scene.clock, ahead))
        goes_by(scene, ahead)

    return sleep


def goes_by(scene: Scene, ahead: float) -> None:
    """Wait until the agent's pages show that clock."""
    wait_until("it goes by it", lambda: abs(shown(scene) - time.time() - ahead) < HOUR / 2)


def shown(scene: Scene) -> float:
    """Return the time of the latest sample, as the agent reports it (Unix seconds)."""
    return min(scene.agent.page.all("last_sample_timestamp_seconds"))


AROUND = (
    Fault("half-open connections", crowd(HALF_OPEN, b""), disperse, **PEACE),
    Fault("slow scrapers", crowd(SLOW, REQUEST), disperse, lasts=4, longest_gap=BUSY, **PEACE),
    Fault(
        "deaf scrapers",
        crowd(DEAF, REQUEST + b"\r\n"),
        disperse,
        lasts=4,
        longest_gap=BUSY,
        **PEACE,
    ),
    Fault("clock set forwards", set_clock(HOUR), **BY_ANOTHER_CLOCK),
    Fault("clock set backwards", set_clock(-HOUR), **BY_ANOTHER_CLOCK),
    Fault("suspended machine", suspend_machine(HOUR), skips=True, **BY_ANOTHER_CLOCK),
    Fault("clock set right", set_clock(0.0), **BY_ANOTHER_CLOCK),
)
