"""The split of statement time over the latest intervals of a window."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.config.resources import DISK, DiskSettings, ResourceSettings
from agent.window.concurrency import best_source, running_statements
from agent.window.intervals import Window
from agent.window.resource_utilisation import CPUS, SERVER_SHARE_OF_CPU
from agent.window.time_split_inputs import (
    APPLIERS_CPU,
    CLIENT_RUN_DELAY,
    DISK_READS,
    LOCKS_WAITED_FOR,
    PROCESS_READS,
    RATE,
    RECEIVED,
    ROW_LOCKS,
    RUN_DELAY,
    SENT,
    WAITING_FOR_READS,
)
from models.arrays import Array
from models.time_split.disk_reads import PAGE_BYTES, READ_AHEAD_BYTES, Reads, fit_profile
from models.time_split.disk_time_formulas import DiskProfile
from models.time_split.interval_split import IntervalCounters, time_split
from models.time_split.limiting_resource import LimitedBy
from models.time_split.time_parts import TimeSplit


@dataclass(frozen=True, slots=True)
class TimeUse:
    """The split of one target's statement time; `at` is its end in Unix seconds."""

    at: float
    seconds: float
    """Length of the period, without intervals whose statement time is not known."""
    split: TimeSplit
    limited_by: LimitedBy | None
    fitted_profile: DiskProfile | None
    """The calibration of the disk that was read most, where its counters are enough to fit one."""


class LatestIntervals:
    """Time-weighted means over the intervals of a window."""

    def __init__(self, window: Window, statements: float | None) -> None:
        self._window = window
        self._statements = running_statements(window, best_source(window))
        if statements is not None:
            self._statements = np.full(len(window), statements)
        known = np.isfinite(self._statements)
        self.seconds = float(self._window["seconds"][known].sum())
        self._known = known

    def mean(self, values: Array) -> float | None:
        """Compute the time-weighted mean of values of shape (intervals,); None if none is known."""
        known = np.isfinite(values) & self._known
        if not known.any():
            return None
        return float(np.average(values[known], weights=self._window["seconds"][known]))

    @property
    def statements(self) -> float:
        """Mean number of statements at once."""
        return self.mean(self._statements) or 0.0

    def mean_of(self, name: str) -> float | None:
        """Compute the mean of a utilisation or a rate; None where it is not known."""
        return self.mean(self.values(name))

    def values(self, name: str) -> Array:
        """Return a utilisation or a rate in each interval, shape (intervals,); NaN: not known."""
        return self._window.utilisation_or_rate(name)

    def counts(self, name: str) -> Array:
        """Return the increase of a rate's counter in each interval, shape (intervals,), or NaN."""
        increases: Array = self.values(name) * self._window["seconds"]
        return increases

    def devices(self, ending: str) -> list[str]:
        """Return the devices that have the rate with this ending."""
        return [n.removesuffix(ending) for n in self._window.resources if n.endswith(ending)]

    @property
    def cpu(self) -> float | None:
        """CPU seconds per second of the server's process, without appliers; None: not known."""
        of_process = self.values(SERVER_SHARE_OF_CPU) * self.values(CPUS)
        appliers = np.nan_to_num(self.values(APPLIERS_CPU))
        return self.mean(np.maximum(of_process - appliers, 0.0))


def time_use(
    window: Window, at: float, resources: ResourceSettings, statements: float | None = None
) -> TimeUse | None:
    """Split the statement time of the intervals; None where it is not known.

    The limiting resource is None where the parts contradict the statement time.
    `at` is the end of the last interval in Unix seconds; `statements` is how many ran at once,
    where that is known better than from the window.
    """
    if len(window) == 0:
        return None
    latest = LatestIntervals(window, statements)
    if latest.seconds <= 0:
        return None
    usage = time_split_counters(latest, resources)
    split = time_split(usage)
    limited = None if split.contradicted else LimitedBy.of(split)
    return TimeUse(at, latest.seconds, split, limited, usage.fitted_profile)


def time_split_counters(latest: LatestIntervals, resources: ResourceSettings) -> IntervalCounters:
    """Collect the counters of the time split over these intervals."""
    disk = _disk_read_most(latest)
    return IntervalCounters(
        seconds=latest.seconds,
        statement_time=latest.statements * latest.seconds,
        cpu=_total(latest.cpu, latest.seconds),
        run_delay=_total(_run_delay(latest), latest.seconds),
        row_locks=_total(latest.mean_of(ROW_LOCKS), latest.seconds),
        other_locks=_total(latest.mean_of(LOCKS_WAITED_FOR), latest.seconds),
        reads_waiting=latest.mean_of(WAITING_FOR_READS),
        read_bytes=_total(latest.mean_of(PROCESS_READS), latest.seconds),
        link_share=_link_share(latest, resources),
        **_disk_figures(latest, disk, resources.disks),
    )


def _run_delay(latest: LatestIntervals) -> float | None:
    """Return how many clients' threads wait for a processor; of all threads, where not known."""
    clients = latest.mean_of(CLIENT_RUN_DELAY)
    return latest.mean_of(RUN_DELAY) if clients is None else clients


def _total(rate: float | None, seconds: float) -> float | None:
    return None if rate is None else rate * seconds


def _disk_read_most(latest: LatestIntervals) -> str | None:
    found = latest.devices(f":{DISK_READS[1]}")
    return max(
        found, key=lambda disk: latest.mean_of(f"{disk}:{DISK_READS[1]}") or 0.0, default=None
    )


def _disk_figures(
    latest: LatestIntervals, disk: str | None, settings: Mapping[str, DiskSettings]
) -> Mapping[str, Any]:
    """Return the reads of the disk that is read most, and its calibration."""
    if disk is None:
        return {}
    columns = [latest.values(f"{disk}:{name}") for name in DISK_READS]
    reads, bytes_, merged, seconds = (
        (latest.mean(column) or 0.0) * latest.seconds for column in columns
    )
    operations, bytes_read, _, busy = (latest.counts(f"{disk}:{name}") for name in DISK_READS)
    named = settings.get(disk.removeprefix(DISK))
    return {
        "disk": Reads(reads, bytes_, merged),
        "disk_seconds": seconds,
        "profile": named and configured_profile(named),
        "fitted_profile": fit_profile(operations, bytes_read, busy),
    }


def configured_profile(disk: DiskSettings) -> DiskProfile | None:
    """Return the calibration that the configuration gives a disk; one number implies the other."""
    operations, bandwidth = disk.operations, disk.bandwidth
    if operations is not None:
        return DiskProfile(bandwidth or operations * READ_AHEAD_BYTES, 1.0 / operations)
    return None if bandwidth is None else DiskProfile(bandwidth, PAGE_BYTES / bandwidth)


LINK_BYTES_PER_BYTE = 1514 / 1448
"""Bytes on a link per byte that a server counts: a full Ethernet frame has 14 of its own, 20 of IP
and 32 of TCP with timestamps (RFC 7323)."""


def _link_share(latest: LatestIntervals, resources: ResourceSettings) -> float | None:
    """Compute the share of a link that the server's own bytes take, of the fullest link."""
    own = {"sent": latest.mean_of(SENT), "received": latest.mean_of(RECEIVED)}
    shares = []
    for direction, bytes_ in own.items():
        ending = f":{direction}{RATE}"
        for link in latest.devices(ending):
            moved = latest.mean_of(f"{link}{ending}")
            limit = resources.limits.get(f"{link}:{direction}")
            used = latest.mean_of(f"{link}:{direction}")
            if moved and limit:
                used = moved / limit
            if used is not None and moved is not None and bytes_ is not None:
                shares.append(
                    used * min(LINK_BYTES_PER_BYTE * bytes_ / moved, 1.0) if moved > 0 else 0.0
                )
    return max(shares, default=None)
