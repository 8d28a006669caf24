"""The time split of each query class, from what the class models attribute to it.

CPU and lock waits are the class's own. The wait for processors is divided by CPU, then the time
that the whole server spends on the network by the bytes that each class sends, and that on disk by
those that it reads. A class takes no more of any than its statement time leaves. What it cannot
take of the processors' and the disk's, which are measured, goes to the others; the network's is an
upper bound (of a full link all who are at work might wait), so there it goes to nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.numerics import NEGLIGIBLE
from models.rates import Array
from models.time_split.split import Part, TimeSplit


@dataclass(frozen=True, eq=False)
class ClassUse:
    """What each class used, shape (K,) each; None where that is not known of any."""

    statement_time: Array
    """s."""
    cpu: Array | None = None
    """s."""
    locks: Array | None = None
    """s, row locks, table locks and metadata locks."""
    read_bytes: Array | None = None
    sent_bytes: Array | None = None


def class_splits(target: TimeSplit, use: ClassUse) -> list[TimeSplit]:
    """Split each class's statement time; `target` is that of the whole server in the same time."""
    nothing = np.zeros(len(use.statement_time))
    total = np.maximum(use.statement_time, 0.0)
    cpu = nothing if use.cpu is None else np.clip(use.cpu, 0.0, None)
    locks = nothing if use.locks is None else np.clip(use.locks, 0.0, None)
    room = np.maximum(total - cpu - locks, 0.0)
    disk_parts = (Part.DISK_SEQUENTIAL, Part.DISK_RANDOM)
    queued = shared_out(_sum_of(target, Part.PROCESSOR_QUEUE), use.cpu, room)
    network = divided(_sum_of(target, Part.NETWORK), use.sent_bytes, room - queued)
    disk = shared_out(_sum_of(target, *disk_parts), use.read_bytes, room - queued - network)
    whole = _sum_of(target, *disk_parts)
    sequential = target.seconds[Part.DISK_SEQUENTIAL] / whole if whole > 0 else 0.0
    columns: Mapping[Part, tuple[Array | None, Array]] = {
        Part.CPU: (use.cpu, cpu),
        Part.PROCESSOR_QUEUE: (use.cpu, queued),
        Part.DISK_SEQUENTIAL: (use.read_bytes, disk * sequential),
        Part.DISK_RANDOM: (use.read_bytes, disk * (1.0 - sequential)),
        Part.NETWORK: (use.sent_bytes, network),
        Part.LOCKS: (use.locks, locks),
    }
    known = {p: values for p, (source, values) in columns.items() if _is_known(p, source, target)}
    return [
        TimeSplit.of(float(total[k]), {part: float(v[k]) for part, v in known.items()})
        for k in range(len(total))
    ]


def divided(amount: float, weights: Array | None, room: Array) -> Array:
    """Divide an amount in proportion to weights; what is more than a class's room is lost; (K,).

    A byte waits as long as another at the same link, whoever sends it: no class is given more for
    its weight than the one of the greatest weight has room for.
    """
    wanted = np.zeros(len(room)) if weights is None else np.clip(weights, 0.0, None)
    if not wanted.any():
        return wanted
    top = int(np.argmax(wanted))
    each = min(amount / float(wanted.sum()), float(room[top] / wanted[top]))
    found: Array = np.minimum(each * wanted, room)
    return found


def shared_out(amount: float, weights: Array | None, room: Array) -> Array:
    """Share out an amount in proportion to weights, no more to each than its room; shape (K,)."""
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


def _sum_of(target: TimeSplit, *parts: Part) -> float:
    return sum(target.seconds[part] for part in parts)


def _is_known(part: Part, source: Array | None, target: TimeSplit) -> bool:
    if part in (Part.CPU, Part.LOCKS):
        return source is not None
    return source is not None and part not in target.unknown
