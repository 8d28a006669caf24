"""The demo's load: a process with clients of the shop, whose number rises and falls in waves.

It connects to one server's socket. It ends with that server, or when its parent closes the pipe or
ends.
"""

import math
import os
import random
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

import pymysql
from pymysql.constants import ER

from agent.demo.shop_workload import CLASSES, DATABASE

PERIOD = 36.0  # seconds from one trough of the wave to the next
LOW_CLIENTS = 2  # clients at the bottom of the wave
MIN_TOP_CLIENTS, MAX_TOP_CLIENTS = 24, 48  # and at its top
CLIENTS_PER_CPU = 8
THINK_SECONDS = 0.003  # on average, between two queries of a client
IDLE_SECONDS = 0.1
STEEPNESS = 1.5  # above 1: more time at low loads, where the law bends
CONFLICTS = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT}


def peak_clients() -> int:
    """Return the number of clients at the top of the wave on this machine."""
    return min(
        MAX_TOP_CLIENTS, max(MIN_TOP_CLIENTS, CLIENTS_PER_CPU * len(os.sched_getaffinity(0)))
    )


def clients_at(seconds: float, top: int) -> int:
    """Return how many clients of `top` are active that many seconds after the start."""
    wave = (1 - math.cos(2 * math.pi * seconds / PERIOD)) / 2
    return LOW_CLIENTS + round((top - LOW_CLIENTS) * math.pow(wave, STEEPNESS))


def is_rising(seconds: float) -> bool:
    """Return whether the number of active clients is rising."""
    return seconds % PERIOD < PERIOD / 2


class LoadGenerator:
    """The load's process, from entry to exit; it ends with its parent at the latest."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._top = peak_clients()
        self._start = 0.0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the process, at the bottom of the wave."""
        self._start = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - no outside input
            [sys.executable, "-P", "-m", __name__, self._socket, str(self._start), str(self._top)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # a Ctrl-C at the terminal does not reach it
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the process, which has nothing to clean up."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def description(self) -> str:
        """Describe the present load."""
        direction = "rising" if is_rising(self.seconds) else "falling"
        clients = clients_at(self.seconds, self._top)
        return f"{direction}, {clients} of {self._top} clients active"

    def failure(self) -> str | None:
        """Return why the process ended by itself, or None while it runs."""
        if self._process is None or self._process.poll() is None:
            return None
        lines = self._process.communicate()[1].strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"


def main(socket: str, start: float, top: int) -> None:
    """Run all clients until the parent closes the pipe or dies."""
    for index in range(top):
        client = threading.Thread(target=_run_client, args=(socket, start, top, index), daemon=True)
        client.start()
    sys.stdin.read()
    os._exit(0)


def _run_client(socket: str, start: float, top: int, index: int) -> None:
    """Run one client; end the whole process if the server has gone."""
    try:
        with pymysql.connect(
            unix_socket=socket, user="root", database=DATABASE, autocommit=True
        ) as connection:
            rng = random.Random(index)  # noqa: S311 - the same load every time
            while True:
                if index < clients_at(time.monotonic() - start, top):
                    _run_round(connection, rng)
                else:
                    time.sleep(IDLE_SECONDS)
    except (pymysql.MySQLError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def _run_round(
    connection: "pymysql.Connection[pymysql.cursors.Cursor]", rng: random.Random
) -> None:
    """Run each class `repetitions` times, in random order, with think time after each query."""
    shuffled = [query_class for query_class in CLASSES for _ in range(query_class.repetitions)]
    rng.shuffle(shuffled)
    for query_class in shuffled:
        try:
            with connection.cursor() as cursor:
                cursor.execute(query_class.query(rng.randrange(query_class.order_limit)))
                cursor.fetchall()
        except pymysql.OperationalError as error:
            if error.args[0] not in CONFLICTS:
                raise
        time.sleep(rng.expovariate(1 / THINK_SECONDS))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
