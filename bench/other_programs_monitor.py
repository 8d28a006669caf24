"""How much of the machine's processors other programs use while a bench runs."""

import threading
from types import TracebackType
from typing import NamedTuple, Self

import psutil

EVERY, SPAN = 1.0, 5
"""Seconds between two readings, and how many of them are looked at together."""


class _Reading(NamedTuple):
    """Seconds: the processors' since boot that are not idle, and those of this program's tree."""

    busy: float
    own: float


def _read() -> _Reading:
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
    here = psutil.Process()
    return _Reading(busy, sum(map(_cpu_of, (here, *here.children(recursive=True)))))


def _cpu_of(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])  # of its children that have ended, too
    except psutil.Error:
        return 0.0


class OtherPrograms:
    """Watches from when it is entered: servers, clients and agents are children of this program."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._shares: list[float] = []
        self._thread = threading.Thread(target=self._watch)

    @property
    def worst(self) -> float:
        """The most processors that others used over some seconds, what the host steals included."""
        spans = range(max(len(self._shares) - SPAN + 1, 0))
        return max((sum(self._shares[i : i + SPAN]) / SPAN for i in spans), default=0.0)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        before = _read()
        while not self._stop.wait(EVERY):
            now = _read()
            others = (now.busy - before.busy) - (now.own - before.own)
            self._shares.append(max(others, 0.0) / EVERY)
            before = now
