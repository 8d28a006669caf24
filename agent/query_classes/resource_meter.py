"""The resources that are divided over the classes, and the counters that they are made of."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from agent.window.resource_utilisation import BUSY_CPU_COUNTERS as WORKED
from collectors.base import Sample
from models import rates
from models.attribution.division_methods import DividedResource

USUAL_SAMPLING = 5.0  # seconds between two samples of a resource, unless configured
KEPT_SECONDS = 300.0  # seconds of samples: with the longest sampling, as far as a reading goes back


@dataclass(frozen=True, slots=True)
class Counters:
    """A divided resource, the collector that counts it, and the counters that add up to it."""

    resource: DividedResource
    collector: str
    names: tuple[str, ...]


RESOURCE_COUNTERS = (
    Counters(DividedResource("cpu", is_cpu=True), "host", ("process_cpu_seconds",)),
    Counters(
        DividedResource("user_cpu", is_cpu=True, is_part_of_cpu=True),
        "host",
        ("process_user_seconds",),
    ),
    Counters(
        DividedResource("system_cpu", is_cpu=True, is_part_of_cpu=True),
        "host",
        ("process_system_seconds",),
    ),
    Counters(DividedResource("read"), "host", ("process_read_bytes",)),
    Counters(DividedResource("written"), "host", ("process_written_bytes",)),
    Counters(DividedResource("network"), "status", ("bytes_received", "bytes_sent")),
    Counters(
        DividedResource("row_operations"),
        "status",
        ("innodb_rows_read", "innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted"),
    ),
)
RESOURCES = tuple(counted.resource for counted in RESOURCE_COUNTERS)
BUSY, IO_WAIT, ALL_TIME, DELAY = "busy", "iowait", "all_time", "run_delay"
ROW_LOCKS = "row_lock_milliseconds"
IO_WAIT_COUNTER, IDLE_COUNTER = "cpu_iowait_seconds", "cpu_idle_seconds"
HOST_TIMES = (
    (BUSY, WORKED),
    (IO_WAIT, (IO_WAIT_COUNTER,)),
    (ALL_TIME, (*WORKED, IO_WAIT_COUNTER, IDLE_COUNTER)),
)
"""Parts of the host's CPU time, to judge whether it is saturated or waits for IO."""
SUMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "host": {
        **{c.resource.name: c.names for c in RESOURCE_COUNTERS if c.collector == "host"},
        **dict(HOST_TIMES),
        DELAY: ("process_run_delay_seconds",),
    },
    "status": {
        **{c.resource.name: c.names for c in RESOURCE_COUNTERS if c.collector == "status"},
        ROW_LOCKS: ("innodb_row_lock_milliseconds",),
    },
}
"""All sums measured between two times, by collector and name: the counters to add up."""
METERED = tuple(SUMS)
"""Collectors that count the use of resources."""
LOST = "digests_lost"


@dataclass(frozen=True, slots=True)
class _SampleSums:
    """The sums of one sample, by name; NaN where a counter is missing."""

    at: float
    by_name: Mapping[str, float]
    lost_digests: float | None

    @classmethod
    def of(cls, sample: Sample) -> Self:
        """Add up the counters of a sample of host or status."""
        by_name = {
            name: sum([sample.values.get(counter, math.nan) for counter in counters])
            for name, counters in SUMS[sample.collector].items()
        }
        return cls(sample.at, by_name, sample.values.get(LOST))


class ResourceMeter:
    """Recent samples of host and status, to compute how much of each resource was used.

    `sampling`: the slower one's seconds between two samples.
    """

    def __init__(self, sampling: float = USUAL_SAMPLING) -> None:
        self._max_gap = 3 * max(sampling, USUAL_SAMPLING) + 1.0
        self._samples: dict[str, deque[_SampleSums]] = {name: deque() for name in METERED}

    def append(self, sample: Sample) -> None:
        """Keep the sums of a sample of host or status."""
        kept = self._samples.get(sample.collector)
        if kept is None:
            return
        kept.append(_SampleSums.of(sample))
        while kept[0].at < sample.at - KEPT_SECONDS:
            kept.popleft()

    def has_samples_until(self, at: float) -> bool:
        """Return whether every collector seen so far has a sample at or after `at`."""
        return all(kept[-1].at >= at for kept in self._samples.values() if kept)

    def used(self, start: float, end: float) -> dict[str, float]:
        """Return what was used of each resource between two times; unknown ones are absent."""
        around = {name: _samples_around(kept, start, end) for name, kept in self._samples.items()}
        at = {name: [sample.at for sample in samples] for name, samples in around.items()}
        increases = {
            name: rates.increase(
                start,
                end,
                at[collector],
                [sample.by_name[name] for sample in samples],
                max_gap=self._max_gap,
            )
            for collector, samples in around.items()
            for name in SUMS[collector]
        }
        return {name: increase for name, increase in increases.items() if math.isfinite(increase)}

    def lost_digests(self, start: float, end: float) -> bool:
        """Return whether the server's table was too full for a new class between two times.

        The latest counts before each of them are compared, so that no loss falls between two
        intervals.
        """
        before, by_end = (self._lost_digests_until(at) for at in (start, end))
        return before is not None and by_end is not None and by_end > before

    def _lost_digests_until(self, at: float) -> float | None:
        counts = (
            s.lost_digests
            for s in reversed(self._samples["status"])
            if s.at <= at and s.lost_digests is not None
        )
        return next(counts, None)


def _samples_around(kept: deque[_SampleSums], start: float, end: float) -> list[_SampleSums]:
    """Return the samples from the last one up to `start` to the first one from `end` on."""
    found: list[_SampleSums] = []
    for sample in reversed(kept):
        if sample.at >= end:
            found.clear()
        found.append(sample)
        if sample.at <= start:
            break
    return found[::-1]
