"""Notifications to the service manager, sd_notify(3): readiness, a status, signs of life."""

import logging
import os
import socket
import time
from collections.abc import Mapping

from agent.support.safe_output import printable

log = logging.getLogger(__name__)

SEND_TIMEOUT = 1.0  # seconds that a service manager with a full queue is waited for


class Notifier:
    """Datagrams to `$NOTIFY_SOCKET`; without one nothing is sent.

    A manager that does not listen is no failure of ours, so nothing here raises.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog = _watchdog(environment) if self._address else None
        self._status = ""

    def ready(self) -> None:
        """The start, or a reload, is complete."""
        self._send("READY=1")

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The end begins."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """A sign of life, due every `watchdog` seconds."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for people; sent when it is another than before."""
        line = printable(" ".join(text.split()))
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_TIMEOUT)
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            log.debug("the service manager does not listen: %s", error)


def _address(name: str) -> str:
    """A path, or an abstract name, which is written with an @ for its zero byte."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """The seconds within which the watchdog expects a message; None: no watchdog."""
    text, owner = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    ours = owner in ("", str(os.getpid()))
    return int(text) / 1e6 if ours and text.isdecimal() and int(text) > 0 else None
