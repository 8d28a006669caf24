"""A worker: one thread that executes scheduled runs; a late run is never repeated."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from agent.support.logs import describe_error, fields

log = logging.getLogger(__name__)

Tick = Callable[[float], float]
"""Do what is due at `now` and return when to be called next, both in monotonic seconds."""

IDLE = 1.0  # seconds until the next check of a worker without ticks, or after a failed tick
SHARED_SECONDS = 0.05
"""Seconds that a tick may wait for others that are due by then: a wake-up takes 0.1 ms of CPU."""
SUSPENDED_SECONDS = 10.0
"""From so many seconds on, a late wake-up or a long tick counts as a suspension of the process."""
ALLOWANCE = 60.0  # seconds that one tick may take before the worker counts as hanging


class Worker(threading.Thread):
    """Runs its ticks when they are due, until stopped.

    An exception in a tick is counted and logged on one line, and stops no other tick. A worker
    hangs if a tick takes longer than `allowance` seconds, unless `progress` returns a new value
    from time to time. `at_end` is called last, by the worker's own thread. `target` is the name of
    the target that the worker serves, empty if it serves all.
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
        self.late_seconds = 0.0  # in total, from when ticks were due to when they were run
        self.failures = 0  # ticks that raised an exception
        self._progress = progress
        self._at_end = at_end
        self._due: dict[Tick, float] = dict.fromkeys(ticks, 0.0)
        self._due_lock = threading.Lock()
        self._stop_requested = False
        self._wake = threading.Event()
        self._run_all_now = False  # whether to run all ticks, due or not
        self._expected_at = time.monotonic()  # when the tick in progress began, or the next is due
        self._resumed_at = 0.0  # when the process went on after its last suspension
        self._last_progress: object = None
        self._last_progress_at = 0.0

    def run(self) -> None:
        """Run the ticks that are due, until `stop`."""
        try:
            while not self._stop_requested:
                self._run_due_ticks()
                now = time.monotonic()
                self._expected_at = max(now, self._next_round(now))
                self._wake.wait(self._expected_at - now)
                self._wake.clear()
        finally:
            self._at_end()

    def stop(self) -> None:
        """Ask the worker to end after the tick in progress."""
        self._stop_requested = True
        self._wake.set()

    def wake(self) -> None:
        """Run all ticks at once, due or not; a tick in progress is run again after it has ended."""
        self._run_all_now = True
        self._wake.set()

    def replace_ticks(self, ticks: Sequence[Tick]) -> None:
        """Run these ticks from now on; those that were there before keep their due time."""
        with self._due_lock:
            self._due = {tick: self._due.get(tick, 0.0) for tick in ticks}
        self._wake.set()

    def seconds_behind(self, now: float) -> float:
        """Return the seconds for which, at `now`, the worker has been in a tick or late for one."""
        progress = self._progress()
        if progress != self._last_progress:
            self._last_progress, self._last_progress_at = progress, now
        return max(0.0, now - max(self._expected_at, self._last_progress_at))

    def is_hanging(self, now: float) -> bool:
        """Return whether the worker has been in a tick, or late, for longer than its allowance."""
        return self.seconds_behind(now) > self.allowance

    def _next_round(self, now: float) -> float:
        """Return when all ticks will be due that are due soon after the first."""
        due = list(self._due.values()) or [now + IDLE]
        soon = min(due) + SHARED_SECONDS
        return max(at for at in due if at <= soon)

    def _run_due_ticks(self) -> None:
        """Run each tick that is due, or all after `wake`; add up how late they begin.

        A suspension (of the process, its container or its machine) makes none late.
        """
        at_once, self._run_all_now = self._run_all_now, False
        self._note_suspension()
        for tick in tuple(self._due):
            due, now = self._due.get(tick), time.monotonic()
            if due is None or (due > now and not at_once) or self._stop_requested:
                continue
            self.late_seconds += max(now - max(due, self._resumed_at), 0.0) if due else 0.0
            self._expected_at = now
            next_due = self._run_tick(tick)
            self._note_suspension()
            with self._due_lock:
                if tick in self._due:
                    self._due[tick] = next_due

    def _note_suspension(self) -> None:
        """Note the time if the process was suspended while the worker waited, or in a tick.

        A tick that takes as long by itself counts too: `seconds_behind` shows it.
        """
        now = time.monotonic()
        if now - self._expected_at > SUSPENDED_SECONDS:
            self._resumed_at = now

    def _run_tick(self, tick: Tick) -> float:
        """Run one tick; return when it is due again, soon after a failure."""
        now = time.monotonic()
        try:
            return tick(now)
        except Exception as error:  # a defect of the agent: log where, and go on with the others
            self.failures += 1
            log.error(
                "a scheduled run failed: %s", describe_error(error), extra=fields(worker=self.name)
            )
            log.debug("a scheduled run failed", exc_info=error)
            return now + IDLE
