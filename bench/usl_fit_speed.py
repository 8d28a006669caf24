"""The law's point estimate beside scipy's curve_fit on the same points, in one run.

    OPENBLAS_NUM_THREADS=1 python bench/usl_fit_speed.py [--points 1000] [--repeats 200]

`fit_curve` is the estimate: parameters of at least 0 with the least relative errors of throughput.
`curve_fit` has the parameters' bounds, or none (and may then find a law that no server can have);
`fit_bayes` adds outliers, the posterior with its intervals, and whether to believe it. A part is
`fit_curve`'s time by the other's.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from models.arrays import Array
from models.usl.fit import fit_bayes
from models.usl.law import Usl
from models.usl.points_and_scatter import Points
from models.usl.residence_curve import fit_curve

LAW = Usl(sigma=0.02, kappa=0.0005, lam=800.0)
"""Its peak is at 44 threads."""


class Drawn(NamedTuple):
    """A set of points: where they lie, and how far off the law they are, relatively."""

    name: str
    law: Usl
    low: float
    high: float
    noise: float


SETS = (
    Drawn("near the peak, 2 % noise", LAW, 1, 40, 0.02),
    Drawn("no noise", LAW, 1, 40, 0.0),
    Drawn("10 % noise", LAW, 1, 40, 0.1),
    Drawn("far below the peak", LAW, 1, 8, 0.02),
    Drawn("only past the peak", LAW, 50, 200, 0.02),
    Drawn("both sides of the peak", LAW, 1, 150, 0.02),
    Drawn("no coherency cost", Usl(0.02, 0.0, 800.0), 1, 40, 0.02),
    Drawn("neither cost", Usl(0.0, 0.0, 800.0), 1, 40, 0.02),
)


def main() -> None:
    """Print a row for each set of points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=200)
    args = parser.parse_args()
    warnings.simplefilter("ignore", OptimizeWarning)
    rng = np.random.default_rng(1)
    print(f"{args.points} points, ms of CPU\n")
    print("| points | fit_curve | curve_fit, bounded | part | unbounded | part | fit_bayes |")
    print("|---|---|---|---|---|---|---|")
    for drawn in SETS:
        n = rng.uniform(drawn.low, drawn.high, args.points)
        x = drawn.law.throughput(n) * np.exp(rng.normal(0, drawn.noise, args.points))
        ours, bounded, free, whole = (fastest(task, args.repeats) for task in tasks(n, x))
        parts = f"{bounded:.2f} | {ours / bounded:.2f} | {free:.3f} | {ours / free:.2f}"
        print(f"| {drawn.name} | {ours:.3f} | {parts} | {whole:.2f} |")


def tasks(n: Array, x: Array) -> list[Callable[[], object]]:
    """What is timed: ours, curve_fit with and without bounds, all of ours."""
    start = (0.1, 0.01, float(np.max(x / n)))
    return [
        lambda: fit_curve(Points.of(n, x)),
        lambda: curve_fit(_law, n, x, start, bounds=(0, np.inf)),
        lambda: curve_fit(_law, n, x, start),
        lambda: fit_bayes(n, x),
    ]


def fastest(task: Callable[[], object], repeats: int) -> float:
    """The least time of many, in ms of CPU."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        task()
        seconds.append(time.process_time() - started)
    return 1000 * min(seconds)


def _law(n: Array, sigma: float, kappa: float, lam: float) -> Array:
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


if __name__ == "__main__":
    main()
