"""The law's point estimate beside scipy's curve_fit on the same points, in one run.

    OPENBLAS_NUM_THREADS=1 python bench/usl_point_estimate.py [--points 1000] [--repeats 200]

`fit_curve` is the estimate: parameters of at least 0 with the least relative errors of throughput.
`curve_fit` has the parameters' bounds, or none (and may then find a law that no server can have);
`fit_map` adds outliers, the posterior with its intervals, and whether to believe it.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import curve_fit

from models.usl import Array, Usl
from models.usl_fit import fit_map
from models.usl_map import fit_curve
from models.usl_points import Points

LAW = Usl(sigma=0.02, kappa=0.0005, lam=800.0)
NOISE = 0.02


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=200)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    n = rng.uniform(1, 40, args.points)
    x = LAW.throughput(n) * np.exp(rng.normal(0, NOISE, args.points))
    start = (0.1, 0.01, float(np.max(x / n)))
    tasks: dict[str, Callable[[], object]] = {
        "fit_curve": lambda: fit_curve(Points.of(n, x)),
        "curve_fit, bounded": lambda: curve_fit(_law, n, x, start, bounds=(0, np.inf)),
        "curve_fit, unbounded": lambda: curve_fit(_law, n, x, start),
        "fit_map, all of it": lambda: fit_map(n, x),
    }
    times = {name: fastest(task, args.repeats) for name, task in tasks.items()}
    ours = times["fit_curve"]
    print(f"{args.points} points\n\n| | ms of CPU | fit_curve's part of it |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {1000 * seconds:.3f} | {ours / seconds:.2f} |")


def fastest(task: Callable[[], object], repeats: int) -> float:
    """The least time of many, in seconds of CPU."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        task()
        seconds.append(time.process_time() - started)
    return min(seconds)


def _law(n: Array, sigma: float, kappa: float, lam: float) -> Array:
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


if __name__ == "__main__":
    main()
