"""The service time of a disk for reads: row 2 of Table 1 of the paper.

M. Taufer, T. Stricker and R. Weber, "Scalability and resource usage of an OLAP benchmark on
clusters of PCs", SPAA 2002, section 3.3, for one node.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskProfile:
    """The performance of one disk: the calibration of its rows in Table 1."""

    sequential_bytes_per_second: float
    """`disk_rate`."""
    random_seconds: float
    """The time of one access that does not follow the one before (`t_rand_access`)."""


def sequential_seconds(bytes_read: float, disk: DiskProfile) -> float:
    """Compute the time of sequential reads, s.

    Row 2: t_seq = 2 · blk · seq / disk_rate, with the bytes of all `seq` accesses.
    """
    return bytes_read / disk.sequential_bytes_per_second


def random_seconds(operations: float, disk: DiskProfile) -> float:
    """Compute the time of random reads, s.

    Row 2: t_no_seq = no_seq · t_avg_stride, every stride charged the whole t_rand_access. That
    holds if the time does not depend on the distance.
    """
    return operations * disk.random_seconds
