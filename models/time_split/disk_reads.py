"""Sequential and random reads of a disk, and the calibration of the disk from them.

The paper counts accesses with a stride of one as sequential (section 3.2). The kernel shows no
strides, but sizes: a page that is read by itself is one request of a page, while a scan's pages are
read ahead, merged, and sent in large requests.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.shared_constants import MIN_POINTS
from models.time_split.disk_time_formulas import DiskProfile, random_seconds, sequential_seconds

PAGE_BYTES = 16 * 1024.0
"""Bytes of an InnoDB page, unless configured otherwise: the size of a random read."""
READ_AHEAD_BYTES = 128 * 1024.0
"""Bytes of a request that was read ahead: the kernel's default read-ahead (`read_ahead_kb`)."""
MIN_SPREAD = 0.2
"""Request sizes must differ by this much (standard deviation over mean) to calibrate a disk."""
MIN_OPERATIONS = 100.0
"""Requests in all intervals. With so few the sequential part of the time is off by 0.13 at 0.1 ms
each (simulated, as the kernel counts whole milliseconds), without a profile by 0.3."""


@dataclass(frozen=True, slots=True)
class Reads:
    """The reads of a disk in one interval."""

    operations: float
    """Requests that the disk served."""
    bytes: float
    merged: float = 0.0
    """Requests that were merged into others before the disk saw them."""


def random_share(reads: Reads) -> float:
    """Compute the part of the requests that are random, 0..1, from their mean size and merges.

    The requests are a mixture of single pages and of large ones, so their mean size says how many
    are large. Each merge joined a request to its neighbour, so as many requests are not random.
    """
    if reads.operations <= 0:
        return 1.0
    size = reads.bytes / reads.operations
    by_size = (READ_AHEAD_BYTES - size) / (READ_AHEAD_BYTES - PAGE_BYTES)
    by_merges = 1.0 - reads.merged / (reads.operations + reads.merged)
    return float(np.clip(min(by_size, by_merges), 0.0, 1.0))


def service_seconds(reads: Reads, disk: DiskProfile) -> tuple[float, float]:
    """Compute the time that a disk needs for sequential and for random reads, by Table 1.

    Random reads are charged the access time; all of their bytes are part of that.
    """
    random = reads.operations * random_share(reads)
    sequential_bytes = max(reads.bytes - random * PAGE_BYTES, 0.0)
    if random_share(reads) >= 1.0:
        sequential_bytes = 0.0
    return sequential_seconds(sequential_bytes, disk), random_seconds(random, disk)


def sequential_part(reads: Reads, disk: DiskProfile | None) -> float:
    """Compute the part of the time on the disk that was spent on sequential reads, 0..1.

    By the disk's profile; without one, by bytes.
    """
    if disk is not None:
        sequential, random = service_seconds(reads, disk)
        whole = sequential + random
        return sequential / whole if whole > 0 else 0.0
    if reads.bytes <= 0:
        return 0.0
    single = min(reads.operations * random_share(reads) * PAGE_BYTES, reads.bytes)
    return 0.0 if random_share(reads) >= 1.0 else 1.0 - single / reads.bytes


def fit_profile(operations: Array, bytes_read: Array, seconds: Array) -> DiskProfile | None:
    """Learn a disk's profile from intervals: seconds = a · operations + bytes / rate.

    All are totals of an interval, shape (T,); `seconds` is the time that the device reports for
    its reads. None if too little was read, or if all requests were of one size, so that a and the
    rate cannot be distinguished.
    """
    known = np.isfinite(operations + bytes_read + seconds) & (operations > 0)
    n, size, took = operations[known], bytes_read[known], seconds[known]
    if len(n) < 2 * MIN_POINTS or n.sum() < MIN_OPERATIONS:
        return None
    sizes = size / n
    if sizes.std() < MIN_SPREAD * sizes.mean():
        return None
    scale = float(sizes.mean())
    columns = np.column_stack((n, size / scale))
    per_operation, per_unit = np.linalg.lstsq(columns, took, rcond=None)[0]
    if per_operation <= 0 or per_unit <= 0:
        return None
    return DiskProfile(scale / float(per_unit), float(per_operation))
