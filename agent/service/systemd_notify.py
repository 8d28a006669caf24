"""Notifications to the service manager, sd_notify(3): readiness, a status, signs of life."""

import logging
import os
import socket
import time
from collections.abc import Mapping

from agent.support.safe_output import printable

log = logging.getLogger(__name__)

MAX_STATUS_BYTES = 3072
"""Of a status, the rest is cut off: systemd drops a whole message of more than 4096 bytes."""
SEND_TIMEOUT = 1.0  # seconds to wait for a service manager whose queue is full


class Notifier:
    """Sends datagrams to `$NOTIFY_SOCKET`; without one nothing is sent.

    Errors while sending are only logged, as the agent works without a service manager, too.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog_seconds(environment) if self._address else None
        self._status = ""

    def ready(self) -> None:
        """Report that the start, or a reload, is complete."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Report that a reload begins; `ready` reports its end."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the agent is shutting down."""
        self._send("STOPPING=1")

    def ping_watchdog(self) -> None:
        """Ping the watchdog, which expects that every `watchdog_seconds`."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Send a line that describes the state, if it has changed."""
        line = _shortened(printable(" ".join(text.split())))
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


def _shortened(line: str) -> str:
    content = line.encode()
    if len(content) <= MAX_STATUS_BYTES:
        return line
    return content[:MAX_STATUS_BYTES].decode(errors="ignore") + "…"


def _address(name: str) -> str:
    """Return the socket's path or abstract name (written with @ for the zero byte), or ""."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the seconds within which the watchdog expects a message; None: no watchdog."""
    text, owner = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    is_for_us = owner in ("", str(os.getpid()))
    return int(text) / 1e6 if is_for_us and text.isdecimal() and int(text) > 0 else None
