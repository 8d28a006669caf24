"""A worker: one thread that executes scheduled runs; a late run is never repeated."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from agent.support.logs import fields, located

log = logging.getLogger(__name__)

Tick = Callable[[float], float]
"""Do what is due at `now` and answer when to be called next, both in monotonic seconds."""

IDLE = 1.0  # seconds a worker without work waits before it looks again
ALLOWANCE = 60.0  # seconds that one tick may take before the worker is said to hang


class Worker(threading.Thread):
    """Take ticks until stopped. A tick's defect is counted, logged on one line and costs no other.

    A tick that takes longer than `allowance` seconds hangs, unless `progress` answers something
    new from time to time. `at_end` is called last of all, by the worker's own thread. `target` is
    whom it works for, empty where that is all of them.
    """

    def __init__(
        self,
        name: str,
        ticks: Sequence[Tick],
        *,
        allowance: float = ALLOWANCE,
        progress: Callable[[], object] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
        target: str = "",
    ) -> None:
        super().__init__(name=f"{name} {target}".rstrip(), daemon=True)
        self.kind = name
        self.target = target
        self.allowance = allowance
        self.late_seconds = 0.0  # in all, by which ticks were taken after they were due
        self.failures = 0  # ticks that ended by a defect of ours
        self._progress = progress
        self._at_end = at_end
        self._due: dict[Tick, float] = dict.fromkeys(ticks, 0.0)
        self._changing = threading.Lock()
        self._stop_asked = threading.Event()
        self._wake = threading.Event()
        self._at_once = False  # whether to take all ticks, due or not
        self._expected = time.monotonic()  # when the worker began its tick, or is to begin the next
        self._seen: object = None
        self._seen_at = 0.0

    def run(self) -> None:
        """Take what is due until `stop`."""
        try:
            while not self._stop_asked.is_set():
                self._take_round()
                now = time.monotonic()
                self._expected = max(now, min(self._due.values(), default=now + IDLE))
                self._wake.wait(self._expected - now)
                self._wake.clear()
        finally:
            self._at_end()

    def stop(self) -> None:
        """Ask the worker to end after the tick it is in."""
        self._stop_asked.set()
        self._wake.set()

    def wake(self) -> None:
        """Have all ticks taken at once, those that are not due too; again after one in progress."""
        self._at_once = True
        self._wake.set()

    def replace_ticks(self, ticks: Sequence[Tick]) -> None:
        """Take these from now on; those that were taken before keep their turn."""
        with self._changing:
            self._due = {tick: self._due.get(tick, 0.0) for tick in ticks}
        self._wake.set()

    def lag(self, now: float) -> float:
        """For how many seconds the worker has been in its tick, or late for the next, at `now`."""
        progress = self._progress()
        if progress != self._seen:
            self._seen, self._seen_at = progress, now
        return max(0.0, now - max(self._expected, self._seen_at))

    def hangs(self, now: float) -> bool:
        """Whether the worker should have come round long ago."""
        return self.lag(now) > self.allowance

    def _take_round(self) -> None:
        at_once, self._at_once = self._at_once, False
        for tick in tuple(self._due):
            due, now = self._due.get(tick), time.monotonic()
            if due is None or (due > now and not at_once) or self._stop_asked.is_set():
                continue
            self.late_seconds += max(now - due, 0.0) if due else 0.0
            self._expected = now
            next_due = self._take(tick)
            with self._changing:
                if tick in self._due:
                    self._due[tick] = next_due

    def _take(self, tick: Tick) -> float:
        now = time.monotonic()
        try:
            return tick(now)
        except Exception as error:  # a defect of ours: say where, and go on with the others
            self.failures += 1
            log.error("a scheduled run failed: %s", located(error), extra=fields(worker=self.name))
            log.debug("a scheduled run failed", exc_info=error)
            return now + IDLE
