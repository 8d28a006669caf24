"""Cost of following query classes live, beside scipy's solver on the same problem in the same run.

    OPENBLAS_NUM_THREADS=1 python bench/class_tracking_cost.py [--known 10000] [--active 500]
                                       [--intervals 3600]

A reading of the digest table from its text to the changes per class; a minute's refit of one
resource from the sums of the window; the memory of each. Times are this machine's, ratios any's.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from agent.query_classes.assessment import MAX_TRACKED
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import DigestDeltas
from agent.query_classes.resource_meter import RESOURCES
from collectors.digest_table import COUNTERS
from collectors.digests import DigestRows
from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.result import HostUse
from models.attribution.sliding_model import SlidingModel

REPEATS = 5
AVERAGED_MINUTES = (
    12  # minutes, over which the time of a division is averaged: not each makes a new fit
)
INTERVALS_PER_MINUTE = 60
NAMES = tuple(COUNTERS.values())


def main() -> None:
    """Print one row per task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("known", 10_000), ("active", 500), ("intervals", 3600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    minutes = args.intervals // INTERVALS_PER_MINUTE
    intervals, y = window(rng, args.intervals)
    print("| task | ms of CPU | of nnls | MB |")
    print("|---|---|---|---|")
    count = intervals.count
    assert count is not None
    design = np.column_stack((count, intervals.seconds))
    reference = best(lambda: nnls(design, y, maxiter=10 * design.shape[1]))
    row(f"scipy.optimize.nnls, {args.intervals} intervals", reference, reference, design.nbytes)
    for text, complete in (("all", True), (f"{args.active} in use", False)):
        elapsed, size = reading(rng, args.known, args.known if complete else args.active)
        row(f"a reading of {args.known} known classes, {text}", elapsed, reference, size)
    for resource in (RESOURCES[0], RESOURCES[3]):
        elapsed, size = refit(resource.name, intervals, y, minutes)
        row(f"a minute's division of {resource.name}", elapsed, reference, size)


def window(rng: np.random.Generator, intervals: int) -> tuple[ClassIntervals, Array]:
    """Draw a window of as many classes as are tracked."""
    names = (*(f"q{k}" for k in range(MAX_TRACKED)), "other", "agent")
    rate = 10 ** rng.uniform(-2, 3, len(names))
    cost = 10 ** rng.uniform(-5, -2, len(names)) / np.maximum(rate, 1) ** 0.7
    count = rng.poisson(rate * np.exp(0.3 * rng.normal(size=(intervals, len(names))))).astype(float)
    work = count * cost * 1.5
    y = (count @ cost + 0.02) * np.exp(rng.normal(0, 0.03, intervals))
    sizes = tuple((name, count * 7.0) for name in ("rows_examined", "rows_sent"))
    return ClassIntervals(
        names, np.ones(intervals), work, count, inflight_delta=0 * work, sizes=sizes
    ), y


def reading(rng: np.random.Generator, known: int, used: int) -> tuple[float, int]:
    """Time from the rows' texts to changes per class, and measure what is remembered."""
    keys = [f"1700000000.{k:06d}|{k:064x}|=shop" for k in range(known)]
    sums = np.cumsum(rng.integers(1, 1000, (REPEATS + 2, known, len(NAMES))), axis=0).astype(float)
    which = rng.choice(known, used, replace=False)
    tracemalloc.start()
    deltas = DigestDeltas(ClassRegistry())
    deltas.take(parsed(keys, lines(sums[0]), since=None))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    timings = []
    for turn in range(1, REPEATS + 1):
        text = lines(sums[turn][which])
        some = [keys[k] for k in which]
        begun = time.process_time()
        changes = deltas.take(parsed(some, text, since=2.0))
        timings.append(time.process_time() - begun)
        assert changes is not None
    return min(timings), size


def lines(numbers: Array) -> list[str]:
    """Rows as the server writes them."""
    return [" ".join(["1000000", *(f"{v:.0f}" for v in row)]) for row in numbers]


def parsed(keys: list[str], texts: list[str], since: float | None) -> DigestRows:
    """The same as the collector makes of an answer."""
    numbers = np.fromstring(" ".join(texts), sep=" ").reshape(len(keys), 1 + len(NAMES))
    return DigestRows(
        names=NAMES,
        keys=keys,
        counters=numbers[:, 1:],
        age=numbers[:, 0],
        complete=since is None,
        since=since,
        running={},
        texts={},
        own_digests=frozenset(),
    )


def refit(name: str, intervals: ClassIntervals, y: Array, minutes: int) -> tuple[float, int]:
    """Time the last minutes of a window of so many, each alike, and measure what is kept."""
    resource = next(resource for resource in RESOURCES if resource.name == name)
    host, timings = HostUse(busy=0.3, io_wait=0.0, running=0.8), []
    tracemalloc.start()
    model = SlidingModel(resource, minutes)
    for minute in range(minutes):
        part = slice(minute * INTERVALS_PER_MINUTE, (minute + 1) * INTERVALS_PER_MINUTE)
        block, total = intervals.at(part), y[part]
        last = minute >= minutes - AVERAGED_MINUTES
        if last and tracemalloc.is_tracing():
            size = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
        begun = time.process_time()
        model.add_block(block, total, host)
        if last:
            timings.append(time.process_time() - begun)
    return sum(timings) / len(timings), size


def best(task: Callable[[], object]) -> float:
    """Take the least of some timings, s of CPU."""
    timings = []
    for _ in range(REPEATS):
        begun = time.process_time()
        task()
        timings.append(time.process_time() - begun)
    return min(timings)


def row(name: str, elapsed: float, reference: float, size: int) -> None:
    """Print one task."""
    print(f"| {name} | {1e3 * elapsed:.1f} | {elapsed / reference:.2f} | {size / 1e6:.1f} |")


if __name__ == "__main__":
    main()
