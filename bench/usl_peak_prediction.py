"""Predict a curve's peak from the points below it: error, coverage, trust, by method.

    python bench/usl_peak_prediction.py --published [--choose]
    python bench/usl_peak_prediction.py [FOLDER or FILE.csv[:N,X] ...] [--simulated 100] [--each]

`--published` judges the published curves of testbed/published/curves.py, cut by load, beside other
estimators, study by study (`testbed/published/held_out.py` says how); `--choose` also chooses the
constants, without each study and without each author (three minutes).

Each file, and each file in a folder, holds one curve that was measured to its peak or past it; the
truth is the greatest throughput in it. The columns are `concurrency` and `throughput` unless named
after a colon; files without them are passed over. Curves are cut by throughput (points below a
share of the peak's) and by load (points up to a share of the peak's). Simulated curves have a
known peak: laws, laws that break where the cores end, closed queueing networks and thread pools
that collapse, with relative errors of 1–5 %.
"""

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peak_prediction_tables import print_published

from models.arrays import Array
from models.trust import Trust
from models.usl.fit import FitMethod, UslFit, fit
from models.usl.law import Usl

SHARES = (0.4, 0.6, 0.8)
CUTS = ("throughput", "load")
WRONG = 0.15
"""A trusted peak must not be off by more."""


@dataclass(frozen=True)
class Task:
    """The points below a share of a peak, and the peak's throughput."""

    name: str
    cut: str
    share: float
    n: Array
    x: Array
    x_max: float


def main() -> None:
    """Print tables for the files' curves and for simulated ones, each prediction too if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FOLDER|FILE.csv[:N,X]")
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--choose", action="store_true", help="choose constants without each study")
    parser.add_argument("--simulated", type=int, default=0, metavar="CURVES")
    parser.add_argument("--each", action="store_true")
    args = parser.parse_args()
    if args.published:
        print_published(choose=args.choose)
    measured = [task for file in args.files for curve in read(file) for task in tasks_of(*curve)]
    invented = [task for curve in simulated(args.simulated) for task in tasks_of(*curve)]
    for title, tasks in (("measured", measured), ("simulated", invented)):
        if tasks and args.each:
            print_each(tasks)
        if tasks:
            print_summary(title, tasks)


def read(argument: str) -> Iterator[tuple[str, Array, Array, float]]:
    """Read the curve of one file, or those of a folder: name, n, x, Xmax."""
    name, _, columns = argument.partition(":")
    n_name, x_name = (columns or "concurrency,throughput").split(",")
    path = Path(name)
    for file in sorted(path.glob("*.csv")) if path.is_dir() else [path]:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        if rows and {n_name, x_name} <= rows[0].keys():
            n, x = (np.array([float(row[c]) for row in rows]) for c in (n_name, x_name))
            yield file.stem, n, x, float(x.max())


def tasks_of(name: str, n: Array, x: Array, x_max: float) -> Iterator[Task]:
    """Cut a curve at each share of its peak, where three points remain."""
    peak = float(n[np.argmax(x)])
    for share in SHARES:
        kept = {"throughput": (n < peak) & (x <= share * x.max()), "load": n <= share * peak}
        for cut in CUTS:
            if np.count_nonzero(kept[cut]) >= 3:
                yield Task(name, cut, share, n[kept[cut]], x[kept[cut]], x_max)


def simulated(curves: int) -> Iterator[tuple[str, Array, Array, float]]:
    """Draw curves of four kinds at 8–24 levels, past their peak, with errors."""
    rng = np.random.default_rng(3)
    kinds: list[Callable[[np.random.Generator, Array], Array]] = [law, broken, network, pool]
    for number in range(curves):
        kind = kinds[number % len(kinds)]
        top = 2.0 ** rng.uniform(6, 9)
        fine = np.geomspace(1, top, 400)
        exact = kind(rng, fine)
        levels = np.linspace(0, len(fine) - 1, int(rng.integers(8, 25))).astype(int)
        noise = np.exp(rng.normal(0, rng.uniform(0.01, 0.05), len(levels)))
        yield f"{kind.__name__} {number}", fine[levels], exact[levels] * noise, float(exact.max())


def law(rng: np.random.Generator, n: Array) -> Array:
    """Draw a law: Nmax at 8–60 % of the greatest load, σ = 0 or up to 0.2."""
    n_max = n[-1] * rng.uniform(0.08, 0.6)
    sigma = float(rng.choice([0.0, rng.uniform(0, 0.02), rng.uniform(0, 0.2)]))
    curve: Array = Usl(sigma, (1 - sigma) / n_max**2, 1000.0).throughput(n)
    return curve


def broken(rng: np.random.Generator, n: Array) -> Array:
    """Draw a law below the core count; above it each thread brings a few per cent, then less."""
    cores = n[-1] * rng.uniform(0.08, 0.3)
    below = Usl(rng.uniform(0, 0.01), 1e-6, 1000.0).throughput(np.minimum(n, cores))
    over = np.maximum(n / cores - 1, 0)
    curve: Array = below * (1 + rng.uniform(0, 0.4) * over / (1 + over)) / (1 + 0.02 * over**2)
    return curve


def network(rng: np.random.Generator, n: Array) -> Array:
    """Draw a closed network: exact mean value analysis over cores, a lock, a disk and a delay."""
    cores = int(n[-1] * rng.uniform(0.05, 0.3)) + 1
    demands = np.array([1 / cores, rng.uniform(0, 1.2) / cores, rng.uniform(0, 0.8) / cores])
    delay = 1 + rng.uniform(0, 1) - 1 / cores
    queues, found = np.zeros(3), [0.0]
    for customers in range(1, int(n[-1]) + 2):
        times = demands * (1 + queues)
        found.append(customers / (delay + times.sum()))
        queues = found[-1] * times
    fall = 1 + rng.uniform(0, 0.05) * (n / (3 * cores)) ** 2
    curve: Array = 1000 * np.interp(n, np.arange(len(found)), found) / fall
    return curve


def pool(rng: np.random.Generator, n: Array) -> Array:
    """Draw a thread pool: nearly straight up to a limit, flat, and a collapse far beyond."""
    resource_limit, bend = n[-1] * rng.uniform(0.08, 0.4), rng.uniform(2, 6)
    curve: Array = 1000 * n / (1 + (n / resource_limit) ** bend) ** (1 / bend)
    fall: Array = 1 + (n / (resource_limit * rng.uniform(3, 10))) ** 3
    return curve / fall


def error(fitted: UslFit, task: Task) -> float:
    """Relative error of the predicted peak; infinite where the method has none."""
    return fitted.x_max / task.x_max - 1 if fitted.x_max else float("inf")


def print_each(tasks: Iterable[Task]) -> None:
    """Print the error of every method on every task, and the interval."""
    print("| curve | cut | points | linearised | lsq | map | 90 % interval | trust |")
    print("|---|---|---|---|---|---|---|---|")
    for task in tasks:
        fits = [fit(task.n, task.x, method) for method in reversed(FitMethod)]
        errors = " | ".join(f"{100 * error(fitted, task):+.0f} %" for fitted in fits)
        low, high = (100 * (end / task.x_max - 1) for end in fits[-1].x_max_interval or ())
        print(
            f"| {task.name} | {task.cut} {task.share} | {len(task.n)} | {errors} "
            f"| {low:+.0f} to {high:+.0f} % | {fits[-1].trust.replace('_', ' ')} |"
        )


def print_summary(title: str, tasks: list[Task]) -> None:
    """Print median and 90 % quantile of the absolute error, coverage, trusted, wrongly trusted."""
    for cut in CUTS:
        print(f"\n{title}, cut by {cut}: |error| of Xmax in %, median/90 % quantile;")
        print("coverage; trusted; trusted and off by more than 15 %\n")
        print("| method | " + " | ".join(str(share) for share in SHARES) + " |")
        print("|---|" + "---|" * len(SHARES))
        for method in FitMethod:
            cells = [
                summary(method, [task for task in tasks if (task.cut, task.share) == (cut, share)])
                for share in SHARES
            ]
            print(f"| {method.value} | " + " | ".join(cells) + " |")


def summary(method: FitMethod, tasks: list[Task]) -> str:
    """Summarise one method on tasks of one share."""
    fits = [fit(task.n, task.x, method) for task in tasks]
    if not fits:
        return "–"
    errors = np.abs([error(*pair) for pair in zip(fits, tasks, strict=True)])
    middle, far = np.quantile(errors, (0.5, 0.9), method="higher")
    cell = f"{100 * middle:.0f}/{100 * far:.0f}"
    pairs = [(f.x_max_interval, t.x_max) for f, t in zip(fits, tasks, strict=True)]
    covered = [i.low <= x <= i.high for i, x in pairs if i]
    if not covered:
        return cell
    trusted = np.array([fitted.trust is Trust.TRUSTED for fitted in fits])
    wrong = int(np.sum(trusted & (errors > WRONG)))
    return f"{cell}; {100 * np.mean(covered):.0f} %; {100 * trusted.mean():.0f} %; {wrong}"


if __name__ == "__main__":
    main()
