"""One load of a server by its law, from any one of its quantities."""

from typing import NamedTuple

from models.usl.law import Usl


class LoadPoint(NamedTuple):
    """A load of a server; its quantities are nan where the law has no such point."""

    concurrency: float
    """Threads."""
    throughput: float
    """Queries/s."""
    residence_time: float
    """Seconds."""
    efficiency: float
    """Throughput relative to as many threads that do not disturb each other."""


def at_concurrency(law: Usl, n: float) -> LoadPoint:
    """Return the load with this concurrency, threads."""
    return LoadPoint(n, law.throughput(n), law.residence_time(n), law.efficiency(n))


def at_throughput(law: Usl, x: float) -> LoadPoint:
    """Return the load with this throughput, queries/s, before the peak; nan above it."""
    n = law.concurrency_at_throughput(x)
    return LoadPoint(n, x, law.residence_time_at_throughput(x), law.efficiency(n))


def at_residence_time(law: Usl, r: float) -> LoadPoint:
    """Return the load with this residence time, s; nan if it is shorter than any of the law's."""
    n = law.concurrency_at_residence_time(r)
    return LoadPoint(n, law.throughput_at_residence_time(r), r, law.efficiency(n))
