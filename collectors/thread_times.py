"""The waits and CPU times of the threads of a server's process, from /proc (Linux)."""

import os
from pathlib import Path

NANOSECOND = 1e-9
MAX_THREADS = 256
"""About how many threads of a process are read at most; of more, an even sample."""
WORD, MIXING_FACTORS = 2**32, (0x9E3779B1, 0x85EBCA6B)
"""Multipliers of hash functions, which spread neighbouring numbers over all of a word."""
ALL_THREADS_WAIT, CLIENT_THREADS_WAIT = "process_run_delay_seconds", "connection_run_delay_seconds"
APPLIERS_CPU = "applier_cpu_seconds"
CLIENT_THREAD_NAMES = ("connection", "one_connection", "worker_thread")
"""Names of clients' threads, on servers that name their threads; the last is MariaDB's pool."""
APPLIER_THREAD_NAMES = ("rpl_rca_sql", "rpl_rca_wkr")
"""Beginnings of the names of threads that apply what another server wrote, likewise."""


def is_in_sample(task: int, step: int) -> bool:
    """Return whether a thread is in a sample of one in `step`, evenly whatever their numbers are.

    The sample is stable, and that of a greater `step` is a part of it.
    """
    first, second = MIXING_FACTORS
    mixed = task * first % WORD
    mixed = (mixed ^ mixed >> 16) * second % WORD
    return (mixed ^ mixed >> 13) * step < WORD


class ThreadTimes:
    """Measures how long the threads of a process waited for a CPU while they could run (Linux).

    It is the sum of each thread's own counter; the last wait of a thread that has ended is missed.
    Also measures the CPU time of the threads that apply another server's writes, each of which is
    read, however many threads there are.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._names: dict[str, str] = {}
        self._last_waits: dict[str, int] = {}
        self._last_cpu: dict[str, int] = {}
        self._step = 1
        self._sums = {ALL_THREADS_WAIT: 0.0, CLIENT_THREADS_WAIT: 0.0}

    def read(self) -> dict[str, float]:
        """Return the sums since the first call (s): the waits of all and of the clients' threads.

        Where no thread has a client's name (MariaDB), all count as clients' threads. The CPU time
        of appliers is returned once one was seen.
        """
        waits, cpu = {}, {}
        try:
            tasks = os.listdir(self._tasks)  # noqa: PTH208  (half the time of iterdir)
            names = {task: self._names.get(task) or self._name_of(task) for task in tasks}
            step = -(-len(tasks) // MAX_THREADS)
            for task in tasks:
                is_applier = names[task].startswith(APPLIER_THREAD_NAMES)
                is_sampled = is_in_sample(int(task), step)
                if is_applier or is_sampled:
                    ran, waited = _read_thread_times(f"{self._tasks}/{task}/schedstat")
                    if is_sampled:
                        waits[task] = waited
                    if is_applier:
                        cpu[task] = ran
        except (OSError, ValueError, IndexError, ZeroDivisionError):
            return {}
        if not any(waits.values()):
            return {}
        self._add_applier_cpu(cpu)
        self._names = names
        self._add_waits(waits, step, len(tasks) / len(waits))
        return dict(self._sums)

    def _add_waits(self, now: dict[str, int], step: int, weight: float) -> None:
        """Add the wait of each thread since its last reading; of a new thread, since it began."""
        counts_new_threads = bool(self._last_waits) and step == self._step
        clients = {task for task in now if self._names[task] in CLIENT_THREAD_NAMES}
        for task, waited in now.items():
            before = self._last_waits.get(task, 0 if counts_new_threads else waited)
            increase = weight * max(0, waited - before) * NANOSECOND
            self._sums[ALL_THREADS_WAIT] += increase
            if task in clients or not clients:
                self._sums[CLIENT_THREADS_WAIT] += increase
        self._last_waits, self._step = now, step

    def _add_applier_cpu(self, now: dict[str, int]) -> None:
        """Add the CPU time of each applier likewise."""
        for task, ran in now.items():
            before = self._last_cpu.get(task, 0 if self._last_waits else ran)
            increase = max(0, ran - before) * NANOSECOND
            self._sums[APPLIERS_CPU] = self._sums.get(APPLIERS_CPU, 0.0) + increase
        self._last_cpu = now

    def _name_of(self, task: str) -> str:
        """Return the name that the server gave to a thread; empty for one that has just ended."""
        try:
            return (self._tasks / task / "comm").read_text().strip()
        except OSError:
            return ""


def _read_thread_times(path: str) -> tuple[int, int]:
    """Read the nanoseconds that a thread ran and waited; 0 for one that has just ended."""
    try:
        file = os.open(path, os.O_RDONLY)  # many are read, and a file object takes twice as long
        try:
            ran, waited = os.read(file, 100).split()[:2]
            return int(ran), int(waited)
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
