"""Where the demo's page listens: the address given, else the usual port, else a free one."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.config.settings import DEFAULT_LISTEN, Config
from agent.support.errors import HeadroomError

EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - to be shown


Listener = TypeVar("Listener")


class AddressError(HeadroomError):
    """The page cannot listen there; the message says why and what to do."""


@dataclass(frozen=True)
class Address:
    """A host and a port; port 0 is any that is free."""

    host: str
    port: int
    asked: bool = False
    """It was asked for, and no other will do."""

    def bind(self) -> tuple[str, int]:
        """What to listen on."""
        return self.host, self.port

    def url(self, port: int) -> str:
        """What to open in a browser on this machine, once the port is known."""
        return f"http://{EVERYWHERE.get(self.host, self._host)}:{port}"

    def __str__(self) -> str:
        """HOST:PORT, as it is asked for."""
        return f"{self._host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def choose_address(listen: str | None, say: Callable[[str], None]) -> Address:
    """The address asked for, which must be free; else the usual one, or one with a free port."""
    address = replace(parse(listen or DEFAULT_LISTEN), asked=listen is not None)
    reason = _obstacle(address)
    return address if reason is None else _other(address, reason, say)


def listen_on(
    address: Address, listen: Callable[[tuple[str, int]], Listener], say: Callable[[str], None]
) -> Listener:
    """Listen there; another program may have taken it since it was chosen."""
    try:
        return listen(address.bind())
    except OSError as reason:
        return listen(_other(address, reason, say).bind())


def _other(address: Address, reason: OSError, say: Callable[[str], None]) -> Address:
    """Choose another address; raises `AddressError` where this one was asked for."""
    if address.asked:
        advice = "choose another with --web.listen-address HOST:PORT"
        raise AddressError(f"cannot listen on {address}: {reason.strerror}; {advice}") from None
    if reason.errno == errno.EADDRINUSE:
        say(f"port {address.port} is taken; the page takes one that is free")
    return Address(address.host, 0)


def parse(listen: str) -> Address:
    """HOST:PORT as the configuration has it; raises ValueError."""
    address = Address(*Config.validated({"listen": listen, "targets": []}).address)
    if address.port > 65535:
        raise ValueError("a port is at most 65535")
    return address


def _obstacle(address: Address) -> OSError | None:
    """Why the address cannot be used now, or None."""
    try:
        places = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM)
        with socket.socket(places[0][0]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address.bind())
            probe.listen()
    except OSError as error:
        return error
    return None
