"""Checks of the rows of a sample file: what contradicts itself, and what is not used.

A gauge where a counter belongs, or CPU time in another unit, would give wrong numbers without any
other sign of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from agent.config.durations import duration_text, format_duration
from agent.replay.recorded_samples import (
    CPUS,
    HOST_BUSY,
    SERVER_CPU,
    SERVER_CPUS,
    UPTIME,
    Reading,
)
from agent.window.interval_buffer import max_gap

STATEMENT_TIME, RUNNING = "statement_time_s", "threads_running"
COUNTERS = ("questions", STATEMENT_TIME, HOST_BUSY, SERVER_CPU, "redo_writes", "redo_syncs")
MIN_FALLS, MAX_FALL_SHARE = 10, 0.25
"""Falls without a restart, and their share of the rows, from which a column is no counter: resets
of a server's status are rarer."""
MAX_TO_RUNNING, MIN_EXCESSES, MAX_EXCESS_SHARE = 20.0, 10, 0.5
"""Statement time per second may be this many times the running threads, or more in fewer rows and
in less than this share of all: a statement of hours is counted when it ends."""
STRETCH_SECONDS = 60.0
"""The time (s) over which CPU time is compared with the processors."""
MAX_BUSY_RATIO = 1.25
"""CPU time may exceed that of all processors by less: rows are dated to the second."""
MIN_ALONE = 10
"""Samples that no interval uses; fewer are those between two gaps."""


class RowChecks:
    """Checks the rows of a file, in the order of their time."""

    def __init__(self) -> None:
        self._rows = 0
        self._falls = dict.fromkeys(COUNTERS, 0)
        self._excesses = 0
        self._at = math.nan
        self._latest: dict[str, float] = {}
        self._stretches: dict[str, tuple[float, float]] = {}
        """Time and value of each CPU counter where its present stretch begins."""

    def problem_with(self, at: float, known: Mapping[str, float]) -> tuple[str, str] | None:
        """Return the problem that this row makes evident, and the remedy; None: there is none."""
        self._rows += 1
        before, found = self._latest, {n: v for n, v in known.items() if not math.isnan(v)}
        self._latest = before | found
        restarted = found.get(UPTIME, math.inf) < before.get(UPTIME, -math.inf)
        if restarted or self._latest.get(CPUS) != before.get(CPUS):
            self._stretches.clear()
        if not restarted:
            for name in COUNTERS:
                self._falls[name] += found.get(name, math.inf) < before.get(name, -math.inf)
        problem = self._statement_problem(at - self._at, found, before)
        self._at = at
        return problem or self._fall_problem() or self._cpu_problem(at, found)

    def unused_columns(self, header: Sequence[str]) -> list[str]:
        """Return the columns with CPU time that are not used because no row has the processors."""
        needed = {HOST_BUSY: (CPUS,), SERVER_CPU: (CPUS, SERVER_CPUS)}
        return [
            name
            for name, counts in needed.items()
            if name in header and not any(self._latest.get(count, 0.0) > 0 for count in counts)
        ]

    def _fall_problem(self) -> tuple[str, str] | None:
        for name, falls in self._falls.items():
            if falls >= max(MIN_FALLS, MAX_FALL_SHARE * self._rows):
                problem = f"{name} fell {falls} times in {self._rows} rows, and {UPTIME} did not"
                return problem, "give the counter that only grows, not its rate"
        return None

    def _statement_problem(
        self, seconds: float, found: Mapping[str, float], before: Mapping[str, float]
    ) -> tuple[str, str] | None:
        """Compare the time of statements in most rows with the threads that run."""
        spent = found.get(STATEMENT_TIME, math.nan) - before.get(STATEMENT_TIME, math.nan)
        running = max(found.get(RUNNING, math.inf), before.get(RUNNING, math.inf), 1.0)
        self._excesses += spent > MAX_TO_RUNNING * running * seconds
        if self._excesses < max(MIN_EXCESSES, MAX_EXCESS_SHARE * self._rows):
            return None
        problem = f"{STATEMENT_TIME} grew by {spent:g} in {seconds:g} s, with {running:g} {RUNNING}"
        return problem, "give the time of statements in seconds (SUM_TIMER_WAIT / 1e12)"

    def _cpu_problem(self, at: float, found: Mapping[str, float]) -> tuple[str, str] | None:
        """Compare the CPU time of the last minute with what all processors have."""
        cpus = self._latest.get(CPUS, 0.0)
        for name in (HOST_BUSY, SERVER_CPU):
            if name not in found or cpus <= 0:
                continue
            start, value = self._stretches.setdefault(name, (at, found[name]))
            seconds, used = at - start, found[name] - value
            if used < 0 or seconds >= STRETCH_SECONDS:
                self._stretches[name] = (at, found[name])
            if seconds >= STRETCH_SECONDS and used > MAX_BUSY_RATIO * cpus * seconds:
                problem = f"{name} grew by {used:g} in {seconds:g} s, more than {CPUS}, {cpus:g}"
                return problem, "give CPU time in seconds, and the number of processors"
        return None


class LoneSamples:
    """Counts samples of the server that are in no interval, as they are all too far apart."""

    def __init__(self, name: str, sampling: float) -> None:
        self._name, self._sampling = name, sampling
        self._distances: list[float] = []

    def watched(self, readings: Iterator[Reading]) -> Iterator[Reading]:
        """Yield the readings, and note which of them are that far from both of their neighbours."""
        latest, distance = math.nan, 0.0
        for reading in readings:
            if reading.has_status:
                after = reading.at - latest
                if min(distance, after) > max_gap(self._sampling):
                    self._distances.append(after)
                latest, distance = reading.at, after
            yield reading

    def note(self) -> str | None:
        """Return what they are and how they are used; None where there are few."""
        if len(self._distances) < MIN_ALONE:
            return None
        distance = round(float(np.median(self._distances)), 3)
        count, lasted = len(self._distances), format_duration(sum(self._distances))
        problem = f"{count:,} samples, of {lasted}, are {distance:g} s apart and in no interval"
        return f"{self._name}: {problem}; --sampling {duration_text(distance)} uses them"
