"""A point of the law, from any one of its quantities."""

from typing import NamedTuple

from models.usl.law import Usl


class LawPoint(NamedTuple):
    """A point of the law; its quantities are nan where the law has none."""

    concurrency: float
    """Threads."""
    throughput: float
    """Queries/s."""
    residence_time: float
    """Seconds."""
    efficiency: float
    """Throughput relative to as many threads that do not disturb each other."""


def at_concurrency(law: Usl, n: float) -> LawPoint:
    """Return the point with this concurrency, threads."""
    return LawPoint(n, law.throughput(n), law.residence_time(n), law.efficiency(n))


def at_throughput(law: Usl, x: float) -> LawPoint:
    """Return the point with this throughput, queries/s, before the peak; nan above it."""
    n = law.concurrency_at_throughput(x)
    return LawPoint(n, x, law.residence_time_at_throughput(x), law.efficiency(n))


def at_residence_time(law: Usl, r: float) -> LawPoint:
    """Return the point with this residence time, s; nan if it is shorter than any of the law's."""
    n = law.concurrency_at_residence_time(r)
    return LawPoint(n, law.throughput_at_residence_time(r), r, law.efficiency(n))
