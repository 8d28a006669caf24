"""Connections whose request has yet to arrive: the accepting thread watches them all."""

import select
import socket
from collections.abc import Callable

from agent.web.connection_limiter import ConnectionSlot

ARRIVES = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
HANDSHAKE = b"\x16"  # how a TLS record begins; no HTTP request does
BLANK_LINES = (b"\r\n\r\n", b"\n\n", b"\n\r\n")

Act = Callable[[ConnectionSlot], object]


class PendingConnections:
    """Only a request that has arrived costs a thread; a slow or silent client costs none.

    What has arrived is looked at each time that there is more, and left for the thread that serves
    it. Used by one thread alone.
    """

    def __init__(self, longest: int, serve: Act, leave: Act) -> None:
        self._longest = longest
        self._serve = serve
        self._leave = leave
        self._places: dict[int, ConnectionSlot] = {}
        self._listener = -1
        self._epoll = select.epoll()

    def listen(self, listener: socket.socket) -> None:
        """Look after the socket that connections come to as well."""
        self._listener = listener.fileno()
        self._epoll.register(self._listener, select.EPOLLIN)

    def add(self, place: ConnectionSlot) -> None:
        """Wait for its request."""
        number = place.socket.fileno()
        self._places[number] = place
        self._epoll.register(number, ARRIVES)

    def look(self, seconds: float) -> bool:
        """Serve what arrives within that time; return whether a connection is to be accepted."""
        is_asked = False
        for number, events in self._epoll.poll(seconds):
            if number == self._listener:
                is_asked = True
            elif (act := self._next(self._places[number], events)) is not None:
                self._epoll.unregister(number)
                act(self._places.pop(number))
        return is_asked

    def close(self) -> None:
        """Wait for nothing any more."""
        for place in self._places.values():
            self._leave(place)
        self._places.clear()
        self._epoll.close()

    def _next(self, place: ConnectionSlot, events: int) -> Act | None:
        """Whether to serve or drop it; None: wait on."""
        try:
            begun = place.socket.recv(self._longest + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return self._leave
        if not begun or place.dismissed.is_set():
            return self._leave
        if self._is_whole(begun):
            return self._serve
        return self._leave if events & ENDED else None

    def _is_whole(self, begun: bytes) -> bool:
        """Return whether it ends with a blank line, is too long, or is a TLS handshake."""
        if len(begun) > self._longest or begun.startswith((HANDSHAKE, b"\r\n", b"\n")):
            return True
        return any(blank in begun for blank in BLANK_LINES)
