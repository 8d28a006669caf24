"""Cost of dividing a resource over query classes, beside scipy's solver in the same run.

    OPENBLAS_NUM_THREADS=1 python bench/attribution_speed.py [--known 10000] [--active 500]
                                       [--intervals 3600] [--tracked 200]

One interval of many known and few active classes; the refit of a window, from its samples and from
the sums of its minutes; the memory of each. Ratios hold on any machine, times only on this one.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from models.arrays import Array
from models.attribution.block_model import fit_intervals
from models.attribution.call_and_row_costs import interval_weights
from models.attribution.class_cost_fit import ClassPriors
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.prior_mixture_fit import fit_mixture
from models.attribution.sufficient_statistics import Moments
from models.attribution.weighted_linear_regression import divide_in_proportion

REPEATS = 7
BLOCK = 60


def main() -> None:
    """Print one row per task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("known", 10_000),
        ("active", 500),
        ("intervals", 3600),
        ("tracked", 200),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    intervals, y = window(rng, args.intervals, args.tracked + 1)
    work, seconds, weights = intervals.work_time, intervals.seconds, interval_weights(y)
    counts = np.zeros((1, args.active)) if intervals.count is None else intervals.count
    blocks = [slice(i, i + BLOCK) for i in range(0, args.intervals, BLOCK)]
    minutes = [Moments.of(counts[b], seconds[b], y[b], weights[b]) for b in blocks]
    priors = ClassPriors(counts.sum(axis=0) * y.sum() / counts.sum(), work.sum(axis=0))
    root = np.sqrt(weights)
    design = np.column_stack((counts, seconds)) * root[:, None]
    reference = best(lambda: nnls(design, y * root, maxiter=10 * design.shape[1]))
    print(f"| task ({args.intervals} intervals, {args.tracked} classes) | ms | of nnls | MB |")
    print("|---|---|---|---|")
    row("scipy.optimize.nnls on the window's samples", reference, reference, design.nbytes)
    everybody, one = one_interval(rng, args.known, args.active)
    row(
        f"an interval of {args.known} known classes, all looked at",
        best(everybody),
        reference,
        None,
    )
    row(f"the same, its {args.active} active ones", best(one), reference, None)
    minute = blocks[-1]
    row(
        "sums of the newest minute",
        best(lambda: Moments.of(counts[minute], seconds[minute], y[minute], weights[minute])),
        reference,
        minutes[0].gram.nbytes,
    )
    row("adding up the window's minutes", best(lambda: total(minutes)), reference, None)
    together = total(minutes)
    row("the fit from these sums", best(lambda: fit_mixture(together, priors)), reference, None)
    row("the fit from all samples, unit costs too", *whole_fit(intervals, y, reference))
    print(f"\nMemory of the window's minutes: {len(minutes) * minutes[0].gram.nbytes / 1e6:.1f} MB")


def window(rng: np.random.Generator, intervals: int, classes: int) -> tuple[ClassIntervals, Array]:
    """Draw a window whose classes differ by four orders of magnitude in use."""
    rate = 10 ** rng.uniform(-2, 3, classes)
    cost = 10 ** rng.uniform(-5, -2, classes) / np.maximum(rate, 1) ** 0.7
    load = np.exp(0.3 * rng.normal(size=(intervals, classes)))
    count = rng.poisson(rate * load).astype(float)
    work = count * cost * 2 * np.exp(rng.normal(0, 0.2, classes))
    y = (count @ cost + 0.02) * np.exp(rng.normal(0, 0.03, intervals))
    sizes = (("rows_examined", count * rng.integers(0, 1000, classes).astype(float)),)
    names = tuple(f"q{k}" for k in range(classes))
    return ClassIntervals(names, np.ones(intervals), work, count, sizes=sizes), y


def one_interval(
    rng: np.random.Generator, known: int, active: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Divide one interval over all known classes, and over the active ones alone."""
    x = np.zeros((1, known))
    where = rng.choice(known, active, replace=False)
    x[0, where] = rng.gamma(1, 1, active)
    y = np.array([3.0])
    return lambda: divide_in_proportion(x, y), lambda: divide_in_proportion(x[:, where], y)


def total(minutes: list[Moments]) -> Moments:
    """Add up the minutes of a window."""
    answer = minutes[0]
    for minute in minutes[1:]:
        answer = answer + minute
    return answer


def whole_fit(intervals: ClassIntervals, y: Array, reference: float) -> tuple[float, float, int]:
    """Time a fit from samples, and its peak of memory besides them."""
    elapsed = best(lambda: fit_intervals(intervals, DividedUse(y)))
    tracemalloc.start()
    fit_intervals(intervals, DividedUse(y))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return elapsed, reference, peak


def best(task: Callable[[], object]) -> float:
    """Take the least of some timings, s."""
    timings = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        task()
        timings.append(time.perf_counter() - start)
    return min(timings)


def row(name: str, elapsed: float, reference: float, size: int | None) -> None:
    """Print one task."""
    memory = "–" if size is None else f"{size / 1e6:.1f}"
    print(f"| {name} | {1e3 * elapsed:.2f} | {elapsed / reference:.3f} | {memory} |")


if __name__ == "__main__":
    main()
