"""The time split of a target, computed from the counters of one interval."""

from dataclasses import dataclass

from models.numerics import NEGLIGIBLE
from models.time_split.disk_reads import Reads, sequential_part, service_seconds
from models.time_split.disk_time_formulas import DiskProfile
from models.time_split.queueing import statements_at_resource
from models.time_split.time_parts import TimePart, TimeSplit


@dataclass(frozen=True, slots=True)
class IntervalCounters:
    """The counters of one interval; None if a counter is not known."""

    seconds: float
    """The interval's length."""
    statement_time: float
    """Time of all statements, those in flight included, s."""
    cpu: float | None = None
    """CPU time of the server's process, without that of its appliers, s."""
    run_delay: float | None = None
    """Time that the server's threads could run and waited for a processor, s."""
    row_locks: float | None = None
    """Time of waits for row locks, s."""
    other_locks: float | None = None
    """Time of waits for metadata, table and global locks, s."""
    reads_waiting: float | None = None
    """Mean number of statements that wait for a read of InnoDB or a flush of the redo log."""
    read_bytes: float | None = None
    """Bytes that the server's process read from disks; None: all that was read from the disk."""
    disk: Reads | None = None
    """Reads of the disk by all processes."""
    disk_seconds: float | None = None
    """The time that the disk reports for its reads, queues at it included, s."""
    profile: DiskProfile | None = None
    """The disk's calibration as configured."""
    fitted_profile: DiskProfile | None = None
    """The calibration learned from the times that the disk reports."""
    link_share: float | None = None
    """The part of the time in which the busiest link's busier direction is full, 0..1."""


def time_split(usage: IntervalCounters) -> TimeSplit:
    """Split one interval's statement time over the resources."""
    population = usage.statement_time / usage.seconds if usage.seconds > 0 else 0.0
    disk = _disk_seconds(usage, population)
    sequential = _sequential_part(usage)
    network = None
    if usage.link_share is not None:  # the kernel sends from a buffer: statements need not wait
        network = statements_at_resource(usage.link_share, population) * usage.seconds
    measured = {
        TimePart.CPU: usage.cpu,
        TimePart.PROCESSOR_QUEUE: usage.run_delay,
        TimePart.DISK_SEQUENTIAL: None if disk is None else disk * sequential,
        TimePart.DISK_RANDOM: None if disk is None else disk * (1.0 - sequential),
        TimePart.LOCKS: _sum_of_known(usage.row_locks, usage.other_locks),
    }
    room = usage.statement_time - sum(value for value in measured.values() if value is not None)
    measured[TimePart.NETWORK] = None if network is None else min(network, max(room, 0.0))
    return TimeSplit.of(usage.statement_time, measured)


def _sum_of_known(*seconds: float | None) -> float | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if known else None


def own_reads(usage: IntervalCounters) -> Reads | None:
    """Return the part of the disk's reads that the server's process requested."""
    disk = usage.disk
    if disk is None or usage.read_bytes is None or disk.bytes <= 0:
        return disk
    share = min(usage.read_bytes / disk.bytes, 1.0)
    return Reads(disk.operations * share, disk.bytes * share, disk.merged * share)


def _disk_seconds(usage: IntervalCounters, population: float) -> float | None:
    """Compute the time on disk, s; None if not known.

    By the configured profile, else as reads were seen waiting, else as the disk reports.
    The profile gives the service time, and the time with queue if all statements returned to this
    disk. Between these bounds, the reads that were seen waiting decide.
    """
    own = own_reads(usage)
    if usage.profile is not None and own is not None:
        service = sum(service_seconds(own, usage.profile))
        busy = service / max(usage.seconds, NEGLIGIBLE)
        queue = statements_at_resource(busy, population) * usage.seconds
        if usage.reads_waiting is None:
            return queue
        return min(max(usage.reads_waiting * usage.seconds, service), queue)
    if usage.reads_waiting is not None:
        return min(usage.reads_waiting, population) * usage.seconds
    if usage.disk_seconds is None or own is None or usage.disk is None:
        return None
    share = own.bytes / usage.disk.bytes if usage.disk.bytes > 0 else 0.0
    return usage.disk_seconds * share


def _sequential_part(usage: IntervalCounters) -> float:
    own = own_reads(usage)
    return 0.0 if own is None else sequential_part(own, usage.profile or usage.fitted_profile)
