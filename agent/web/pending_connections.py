"""Connections whose request has not arrived yet, all watched by the accepting thread."""

import select
import socket
from collections.abc import Callable

from agent.web.connection_limiter import ConnectionSlot

ARRIVES = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
HANDSHAKE = b"\x16"  # how a TLS record begins; no HTTP request does
BLANK_LINES = (b"\r\n\r\n", b"\n\n", b"\n\r\n")

Action = Callable[[ConnectionSlot], object]


class PendingConnections:
    """Watches connections until their requests have arrived: slow or silent clients cost no thread.

    The bytes received so far are checked each time that there are more, and left in the socket for
    the thread that serves the request. Not thread-safe.
    """

    def __init__(self, longest: int, serve: Action, leave: Action) -> None:
        self._longest = longest
        self._serve = serve
        self._leave = leave
        self._slots: dict[int, ConnectionSlot] = {}
        self._listener = -1
        self._epoll = select.epoll()

    def listen(self, listener: socket.socket) -> None:
        """Watch the listening socket as well."""
        self._listener = listener.fileno()
        self._epoll.register(self._listener, select.EPOLLIN)

    def add(self, slot: ConnectionSlot) -> None:
        """Watch a connection until its request has arrived."""
        descriptor = slot.socket.fileno()
        self._slots[descriptor] = slot
        self._epoll.register(descriptor, ARRIVES)

    def poll(self, seconds: float) -> bool:
        """Serve what arrives within `seconds`; return whether a connection is to be accepted."""
        has_connection = False
        for descriptor, events in self._epoll.poll(seconds):
            if descriptor == self._listener:
                has_connection = True
            elif (action := self._action_for(self._slots[descriptor], events)) is not None:
                self._epoll.unregister(descriptor)
                action(self._slots.pop(descriptor))
        return has_connection

    def close(self) -> None:
        """Drop all connections, and stop watching."""
        for slot in self._slots.values():
            self._leave(slot)
        self._slots.clear()
        self._epoll.close()

    def _action_for(self, slot: ConnectionSlot, events: int) -> Action | None:
        """Return whether to serve or drop a connection; None: keep waiting."""
        try:
            received = slot.socket.recv(self._longest + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return self._leave
        if not received or slot.disconnected.is_set():
            return self._leave
        if self._is_complete(received):
            return self._serve
        return self._leave if events & ENDED else None

    def _is_complete(self, received: bytes) -> bool:
        """Return whether the request has a blank line, is too long, or is a TLS handshake."""
        if len(received) > self._longest or received.startswith((HANDSHAKE, b"\r\n", b"\n")):
            return True
        return any(blank in received for blank in BLANK_LINES)
