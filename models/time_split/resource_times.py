"""The time that each resource takes for what was asked of it: Table 1 of the paper.

M. Taufer, T. Stricker and R. Weber, "Scalability and resource usage of an OLAP benchmark on
clusters of PCs", SPAA 2002, section 3.3. Each function is one row of that table, for one node.
"""

from dataclasses import dataclass

BLOCK = 512.0
"""Bytes of a disk block (`blk`); Linux then read two of them at a time."""


@dataclass(frozen=True, slots=True)
class DiskProfile:
    """What one disk can do: the calibration of its rows in Table 1."""

    sequential_bytes_per_second: float
    """`disk_rate`."""
    random_seconds: float
    """The time of one access that does not follow the one before (`t_rand_access`)."""


def cpu_seconds(instructions: float, clock_hertz: float, cycles_per_instruction: float) -> float:
    """Row 1: CPI · (IC_user + IC_sys) · t_clock_cycle."""
    return cycles_per_instruction * instructions / clock_hertz


def sequential_seconds(bytes_read: float, disk: DiskProfile) -> float:
    """Row 2: t_seq = 2 · blk · seq / disk_rate, with the bytes of all `seq` accesses."""
    return bytes_read / disk.sequential_bytes_per_second


def random_seconds(operations: float, disk: DiskProfile, stride_share: float = 1.0) -> float:
    """Row 2: t_no_seq = no_seq · t_avg_stride, t_avg_stride = stride_share · t_rand_access.

    `stride_share` is blk · avg_stride / disk_size: 1 charges every access the whole access time,
    which holds where the time does not depend on the distance.
    """
    return operations * stride_share * disk.random_seconds


def network_seconds(bytes_moved: float, bytes_per_second: float) -> float:
    """Row 3: (size_rec + size_trans) / (rate_rec + rate_trans)."""
    return bytes_moved / bytes_per_second
