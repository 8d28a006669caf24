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
    """An accepted connection; its thread replaces `socket` by one with TLS, if used."""

    socket: socket.socket
    host: str
    since: float
    is_request_read: bool = False
    disconnected: threading.Event = field(default_factory=threading.Event)


class ConnectionLimiter:
    """Limits the number of connections, and the duration of each.

    If all slots are taken, the oldest connection of the host with the most is closed, first among
    those whose request has not arrived. So slow clients displace each other, and a new client is
    served at once. Shutting a connection down wakes its thread, which then frees the slot.
    """

    def __init__(self, limit: int, deadline: float) -> None:
        self.limit = limit
        self.deadline = deadline
        self._lock = threading.Lock()
        # each host's slots are in the order of arrival
        self._slots_by_host: dict[str, dict[ConnectionSlot, None]] = {}
        self.count = 0  # connections that have a slot
        self._closing: set[ConnectionSlot] = set()

    def enter(self, connection: socket.socket, host: str) -> ConnectionSlot | None:
        """Return a slot, freeing one if necessary; None while too many are still being closed."""
        with self._lock:
            if len(self._closing) >= self.limit:
                return None
            if self.count >= self.limit:
                self._disconnect([self._next_to_close()])
            slot = ConnectionSlot(connection, host, time.monotonic())
            self._slots_by_host.setdefault(host, {})[slot] = None
            self.count += 1
            return slot

    def replace(self, slot: ConnectionSlot, wrap: Callable[[socket.socket], socket.socket]) -> None:
        """Wrap the slot's socket with `wrap`, under the lock so that it is not closed meanwhile."""
        with self._lock:
            slot.socket = wrap(slot.socket)
            if slot in self._closing:
                _shut_down(slot.socket)

    def leave(self, slot: ConnectionSlot) -> None:
        """Close a connection that has ended, and free its slot."""
        with self._lock:
            self._discard(slot)
            self._closing.discard(slot)
            slot.socket.close()

    def sweep(self) -> None:
        """Disconnect all clients that are past the deadline, whatever their state."""
        latest = time.monotonic() - self.deadline
        with self._lock:
            self._disconnect([slot for slot in self._all_slots() if slot.since < latest])

    def disconnect_all(self) -> None:
        """Disconnect all clients."""
        with self._lock:
            self._disconnect(list(self._all_slots()))

    def _all_slots(self) -> Iterator[ConnectionSlot]:
        return itertools.chain.from_iterable(self._slots_by_host.values())

    def _next_to_close(self) -> ConnectionSlot:
        max_count = max(map(len, self._slots_by_host.values()))
        candidates = (
            _first_to_close(slots)
            for slots in self._slots_by_host.values()
            if len(slots) == max_count
        )
        return min(candidates, key=lambda slot: (slot.is_request_read, slot.since))

    def _discard(self, slot: ConnectionSlot) -> None:
        host_slots = self._slots_by_host.get(slot.host, {})
        if slot in host_slots:
            del host_slots[slot]
            self.count -= 1
        if not host_slots:
            self._slots_by_host.pop(slot.host, None)

    def _disconnect(self, slots: Iterable[ConnectionSlot]) -> None:
        for slot in slots:
            self._discard(slot)
            self._closing.add(slot)
            slot.disconnected.set()
            _shut_down(slot.socket)


def _first_to_close(slots: Iterable[ConnectionSlot]) -> ConnectionSlot:
    """Return which of one host's slots, in the order of arrival, to close first."""
    return next((slot for slot in slots if not slot.is_request_read), next(iter(slots)))


def _shut_down(connection: socket.socket) -> None:
    """Shut down both directions, without touching the TLS state that the thread uses."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
