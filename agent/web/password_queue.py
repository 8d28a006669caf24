"""A fair queue for password checks, one at a time; networks with the most requests come last."""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MAX_WAITING = 16  # clients in the queue, the one being checked included
MAX_WAITING_PER_NETWORK = 2
REMEMBERED_NETWORKS = 4096
COUNT_LIFETIME = 600.0  # seconds without a request, after which the count restarts
IPV6_NETWORK = 64  # bits of the prefix that one household or machine has


@dataclass(eq=False, slots=True)
class _Client:
    network: str
    is_checked: bool = False
    is_dismissed: bool = False


class PasswordQueue:
    """Checks first the client whose network has the fewest requests since its last success.

    After a restart a scraper is as unknown as many clients that guess passwords. But it sends one
    request, and they send many: it waits for the check in progress, and for networks with as few
    requests. A full queue drops the client whose network has the most requests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._clients: list[_Client] = []
        self._asked: OrderedDict[str, tuple[int, float]] = OrderedDict()

    @contextmanager
    def turn(self, address: str) -> Iterator[bool]:
        """Wait for a turn; yields False if the queue is full."""
        client = self._enter(network_of(address))
        if client is None:
            yield False
            return
        try:
            yield self._wait_for_turn(client)
        finally:
            self._leave(client)

    def succeeded(self, address: str) -> None:
        """Reset a network's count of requests after a right password."""
        with self._changed:
            self._asked.pop(network_of(address), None)

    def _enter(self, network: str) -> _Client | None:
        """Queue a request; None if its network, or a queue of better ones, leaves no place."""
        with self._changed:
            self._count(network)
            if sum(c.network == network for c in self._clients) >= MAX_WAITING_PER_NETWORK:
                return None
            client = _Client(network)
            if len(self._clients) >= MAX_WAITING:
                last = max((c for c in self._clients if not c.is_checked), key=self._request_count)
                if self._request_count(last) < self._request_count(client):
                    return None
                last.is_dismissed = True
                self._clients.remove(last)
                self._changed.notify_all()
            self._clients.append(client)
            return client

    def _wait_for_turn(self, client: _Client) -> bool:
        """Wait until the request may be checked; return False if it is dismissed instead."""
        with self._changed:
            while not client.is_dismissed and not self._is_next(client):
                self._changed.wait()
            client.is_checked = not client.is_dismissed
            return client.is_checked

    def _leave(self, client: _Client) -> None:
        with self._changed:
            if not client.is_dismissed:
                self._clients.remove(client)
            self._changed.notify_all()

    def _is_next(self, client: _Client) -> bool:
        """Return whether no check runs and no waiting network has fewer requests."""
        if any(other.is_checked for other in self._clients):
            return False
        return min(self._clients, key=self._request_count) is client

    def _request_count(self, client: _Client) -> int:
        return self._asked.get(client.network, (0, 0.0))[0]

    def _count(self, network: str) -> None:
        """Count one more request of a network."""
        now = self._clock()
        count, at = self._asked.pop(network, (0, now))
        self._asked[network] = (1 if now - at > COUNT_LIFETIME else count + 1, now)
        while len(self._asked) > REMEMBERED_NETWORKS:
            self._asked.popitem(last=False)


def network_of(address: str) -> str:
    """Return the network whose addresses count as one: an IPv4 address, 64 bits of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_NETWORK), strict=False))
