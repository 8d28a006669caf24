"""Limits of connections: how many, a deadline for each, and which is closed when full."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class ConnectionSlot:
    """One connection; its thread replaces `socket` when TLS takes it over."""

    socket: socket.socket
    host: str
    since: float
    is_answered: bool = False  # whether the whole request was read
    dismissed: threading.Event = field(default_factory=threading.Event)


class ConnectionLimiter:
    """Whoever dallies longest leaves when all places are taken, of the host that has most.

    So a crowd of slow clients pushes out each other, and a newcomer is served at once. Hanging up
    wakes the connection's thread, which then gives the place back.
    """

    def __init__(
        self, limit: int, deadline: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = limit
        self.deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: dict[
            str, dict[ConnectionSlot, None]
        ] = {}  # by host, each in the order they came
        self._count = 0
        self._leaving: set[ConnectionSlot] = set()

    def enter(self, connection: socket.socket, host: str) -> ConnectionSlot | None:
        """A place, made free if need be; None while too many are still on their way out."""
        with self._lock:
            if len(self._leaving) >= self.limit:
                return None
            if self._count >= self.limit:
                self._dismiss([self._last_in_favour()])
            place = ConnectionSlot(connection, host, self._clock())
            self._taken.setdefault(host, {})[place] = None
            self._count += 1
            return place

    def replace(
        self, place: ConnectionSlot, wrap: Callable[[socket.socket], socket.socket]
    ) -> None:
        """Have another socket take the connection over, while it cannot be closed."""
        with self._lock:
            place.socket = wrap(place.socket)
            if place in self._leaving:
                _hang_up(place.socket)

    def leave(self, place: ConnectionSlot) -> None:
        """The connection is over: close it and give the place back."""
        with self._lock:
            self._discard(place)
            self._leaving.discard(place)
            place.socket.close()

    def sweep(self) -> None:
        """Hang up on whoever is past the deadline, whatever it was doing."""
        latest = self._clock() - self.deadline
        with self._lock:
            self._dismiss([place for place in self._all() if place.since < latest])

    def dismiss_all(self) -> None:
        """Hang up on everybody."""
        with self._lock:
            self._dismiss(list(self._all()))

    def _all(self) -> Iterator[ConnectionSlot]:
        return itertools.chain.from_iterable(self._taken.values())

    def _last_in_favour(self) -> ConnectionSlot:
        most = max(map(len, self._taken.values()))
        of_each = (_first_to_leave(of) for of in self._taken.values() if len(of) == most)
        return min(of_each, key=lambda place: (place.is_answered, place.since))

    def _discard(self, place: ConnectionSlot) -> None:
        of_host = self._taken.get(place.host, {})
        if place in of_host:
            del of_host[place]
            self._count -= 1
        if not of_host:
            self._taken.pop(place.host, None)

    def _dismiss(self, places: Iterable[ConnectionSlot]) -> None:
        for place in places:
            self._discard(place)
            self._leaving.add(place)
            place.dismissed.set()
            _hang_up(place.socket)


def _first_to_leave(places: Iterable[ConnectionSlot]) -> ConnectionSlot:
    """Of one host's places, in the order they came."""
    return next((place for place in places if not place.is_answered), next(iter(places)))


def _hang_up(connection: socket.socket) -> None:
    """End it both ways, under TLS or not, without touching what its thread uses."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
