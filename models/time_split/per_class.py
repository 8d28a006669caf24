"""The time split of each query class, from what the class models attribute to it.

CPU and lock waits are the class's own. The server's time on disk is divided by how often threads of
each class were seen to wait for one. CPU and the wait for processors are divided together, by how
often threads of the class were seen ready: what exceeds its CPU is its wait. Then the time on the
network is divided by the bytes that each class sends. If the threads were not seen, the wait for
processors is divided by CPU and, last of all, the time on disk by the bytes that each class reads.

A class is given no more of any part than its statement time has room for. The excess of processors
and disks, whose time is measured, goes to the other classes, but is dropped if threads were seen.
The time on the network is an upper bound (at a full link all statements might be waiting), so its
excess is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE
from models.time_split.time_parts import TimePart, TimeSplit


@dataclass(frozen=True, eq=False)
class ClassColumns:
    """The use by each class, shape (K,) each; None if it is not known of any class."""

    statement_time: Array
    """s."""
    cpu: Array | None = None
    """s."""
    locks: Array | None = None
    """s, row locks, table locks and metadata locks."""
    read_bytes: Array | None = None
    sent_bytes: Array | None = None
    on_disk: Array | None = None
    """How often threads of its statements were seen to wait for a disk."""
    ready: Array | None = None
    """How often they were seen to run or to wait for a processor."""


DISK_PARTS = (TimePart.DISK_SEQUENTIAL, TimePart.DISK_RANDOM)
MIN_THREAD_SAMPLES = 10
"""Samples of threads waiting for a disk that are required; with fewer, bytes are used."""


def class_splits(target: TimeSplit, use: ClassColumns) -> list[TimeSplit]:
    """Split each class's statement time; `target` is the whole server's split of the same time."""
    zeros = np.zeros(len(use.statement_time))
    total = np.maximum(use.statement_time, 0.0)
    cpu = zeros if use.cpu is None else np.clip(use.cpu, 0.0, None)
    locks = zeros if use.locks is None else np.clip(use.locks, 0.0, None)
    room = np.maximum(total - cpu - locks, 0.0)
    threads_seen = use.on_disk is not None and float(use.on_disk.sum()) >= MIN_THREAD_SAMPLES
    read = use.on_disk if threads_seen else use.read_bytes
    on_disk, queue = _sum_of(target, *DISK_PARTS), _sum_of(target, TimePart.PROCESSOR_QUEUE)
    disk, queued = zeros, divide_with_redistribution(queue, use.cpu, room)
    if threads_seen:
        disk = divide_by_samples(on_disk, use.on_disk, room)
        ready = divide_by_samples(float(cpu.sum()) + queue, use.ready, total)
        queued = np.clip(ready - cpu, 0.0, room - disk)
    network = divide_link_time(
        _sum_of(target, TimePart.NETWORK), use.sent_bytes, room - disk - queued
    )
    if not threads_seen:
        disk = divide_with_redistribution(on_disk, read, room - queued - network)
    sequential = target.seconds[TimePart.DISK_SEQUENTIAL] / on_disk if on_disk > 0 else 0.0
    columns: Mapping[TimePart, tuple[Array | None, Array]] = {
        TimePart.CPU: (use.cpu, cpu),
        TimePart.PROCESSOR_QUEUE: (use.cpu, queued),
        TimePart.DISK_SEQUENTIAL: (read, disk * sequential),
        TimePart.DISK_RANDOM: (read, disk * (1.0 - sequential)),
        TimePart.NETWORK: (use.sent_bytes, network),
        TimePart.LOCKS: (use.locks, locks),
    }
    known = {p: values for p, (source, values) in columns.items() if _is_known(p, source, target)}
    return [
        TimeSplit.of(float(total[k]), {part: float(v[k]) for part, v in known.items()})
        for k in range(len(total))
    ]


def divide_by_samples(amount: float, looks: Array | None, room: Array) -> Array:
    """Divide an amount by samples of threads, to each class at most its room; shape (K,)."""
    if looks is None or looks.sum() <= 0:
        return np.zeros(len(room))
    found: Array = np.minimum(amount * looks / float(looks.sum()), room)
    return found


def divide_link_time(amount: float, weights: Array | None, room: Array) -> Array:
    """Divide an amount (s) by weights, shape (K,); what exceeds a class's room is lost.

    Every byte waits equally long at a link, whichever class sends it: no class gets more per weight
    than the class with the greatest weight has room for.
    """
    wanted = np.zeros(len(room)) if weights is None else np.clip(weights, 0.0, None)
    if not wanted.any():
        return wanted
    largest = int(np.argmax(wanted))
    each = min(amount / float(wanted.sum()), float(room[largest] / wanted[largest]))
    found: Array = np.minimum(each * wanted, room)
    return found


def divide_with_redistribution(amount: float, weights: Array | None, room: Array) -> Array:
    """Divide an amount by weights; what exceeds a class's room goes to the others; shape (K,)."""
    given = np.zeros(len(room))
    if weights is None:
        return given
    left = amount
    for _ in room:  # each redistribution fills at least one more class
        open_ = np.where(room - given > NEGLIGIBLE, np.clip(weights, 0.0, None), 0.0)
        if left <= NEGLIGIBLE or open_.sum() <= 0:
            break
        step = np.minimum(left * open_ / open_.sum(), room - given)
        given, left = given + step, left - float(step.sum())
    return given


def _sum_of(target: TimeSplit, *parts: TimePart) -> float:
    return sum(target.seconds[part] for part in parts)


def _is_known(part: TimePart, source: Array | None, target: TimeSplit) -> bool:
    if part in (TimePart.CPU, TimePart.LOCKS):
        return source is not None
    return source is not None and part not in target.unknown
