"""The address of the demo's page: the one given, else the default port, else a free one."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.config.settings import DEFAULT_LISTEN, Config
from agent.support.errors import HeadroomError

LOOPBACK_BY_WILDCARD = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - for URLs only

Listener = TypeVar("Listener")


class AddressError(HeadroomError):
    """The page cannot listen there; the message says why and what to do."""


@dataclass(frozen=True)
class Address:
    """A host and a port; port 0 is any that is free."""

    host: str
    port: int
    is_explicit: bool = False
    """Whether the user gave this address; no other is tried then."""

    def socket_address(self) -> tuple[str, int]:
        """Return the host and port to listen on."""
        return self.host, self.port

    def url(self, port: int) -> str:
        """Return the URL for a browser on this machine; `port` is the one that was bound."""
        return f"http://{LOOPBACK_BY_WILDCARD.get(self.host, self._bracketed_host)}:{port}"

    def __str__(self) -> str:
        """Return HOST:PORT, as on the command line."""
        return f"{self._bracketed_host}:{self.port}"

    @property
    def _bracketed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def choose_address(listen: str | None, say: Callable[[str], None]) -> Address:
    """Return the given address; without one the default, or if that is taken any free port.

    Raises AddressError if the given address cannot be used.
    """
    address = replace(parse_address(listen or DEFAULT_LISTEN), is_explicit=listen is not None)
    reason = _listen_error(address)
    return address if reason is None else _fallback(address, reason, say)


def listen_on(
    address: Address, listen: Callable[[tuple[str, int]], Listener], say: Callable[[str], None]
) -> Listener:
    """Listen on the address, or on a free port if that fails: it may have been taken meanwhile.

    Raises AddressError instead if the user gave the address.
    """
    try:
        return listen(address.socket_address())
    except OSError as reason:
        return listen(_fallback(address, reason, say).socket_address())


def _fallback(address: Address, reason: OSError, say: Callable[[str], None]) -> Address:
    """Return the host with any free port; raises `AddressError` if the user gave the address."""
    if address.is_explicit:
        advice = "choose another with --web.listen-address HOST:PORT"
        raise AddressError(f"cannot listen on {address}: {reason.strerror}; {advice}") from None
    if reason.errno == errno.EADDRINUSE:
        say(f"port {address.port} is taken; the page uses a free port instead")
    return Address(address.host, 0)


def parse_address(listen: str) -> Address:
    """Parse HOST:PORT as the configuration does; raises ValueError."""
    return Address(*Config.validated({"listen": listen, "targets": []}).address)


def _listen_error(address: Address) -> OSError | None:
    """Return the error of listening on the address now, or None."""
    try:
        found = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address.socket_address())
            probe.listen()
    except OSError as error:
        return error
    return None
