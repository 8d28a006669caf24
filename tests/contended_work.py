"""A load with contention and coherency of known size, without CPU: a busy machine bends nothing.

A statement waits 40 ms, 5 % of that for each that runs beside it, and 1 % for each pair of these
and itself.
"""

import threading
import time
from typing import Self

from agent.demo.private_server import PrivateServer
from testbed.real.clients import root

WORK = """
SELECT SLEEP(0.040 + 0.0020 * beside + 0.0004 * beside * (beside + 1)) FROM (
    SELECT COUNT(*) AS beside FROM performance_schema.threads
     WHERE PROCESSLIST_STATE = 'User sleep') AS others"""
PEAK = 9.7  # threads: sqrt((1 - 0.05) / 0.01)
NO_HOST = {"collectors": {"host": {"enabled": False}}}  # others may fill the CPU that we share


def residence_time(count: int) -> float:
    """How long a statement takes among so many, in seconds."""
    beside = count - 1
    return 0.040 + 0.0020 * beside + 0.0004 * beside * (beside + 1)


class ContendedLoad:
    """Clients that never rest, of which as many are at work as `set` says; leaving ends them.

    The others keep their sessions. A number that changes has the load go on without a pause.
    """

    def __init__(self, server: PrivateServer, most: int) -> None:
        self._server = server
        self._count = 0
        self._done = 0
        self._changed = threading.Condition()
        self._stop = False
        self._threads = [threading.Thread(target=self._live, args=[i]) for i in range(most)]

    def __enter__(self) -> Self:
        """Open their sessions; none works yet."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Let each end its statement."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def set(self, count: int) -> None:
        """So many are at work from now on.

        How long a statement takes is settled when it begins. So they come one by one: of many at
        once, the first would run as if nobody came after.
        """
        for number in [*range(self._count + 1, count), count]:
            with self._changed:
                self._count = number
                self._changed.notify_all()
            time.sleep(residence_time(number))

    def throughput(self, seconds: float) -> float:
        """Statements per second that end from now on, for so long."""
        begun, before = time.monotonic(), self._done
        time.sleep(seconds)
        return (self._done - before) / (time.monotonic() - begun)

    def _live(self, index: int) -> None:
        with root(self._server) as ask:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._stop or index < self._count)
                    if self._stop:
                        return
                ask(WORK)
                with self._changed:
                    self._done += 1
