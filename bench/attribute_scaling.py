"""Measure the cost of `attribute` over the number of columns, as ratios within one run.

    OPENBLAS_NUM_THREADS=1 python bench/attribute_scaling.py [--intervals 600]
                                       [--columns 300 1000]

A wide file of so many classes is read, divided, and predicted quarter by quarter, as the command
does. Times are CPU seconds of this process.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from agent.csv_input.class_file import read_classes
from models.arrays import Array
from models.attribution.division_methods import DividedUse
from models.attribution.resource_division import attribute

COLUMNS = (300, 1000, 3000, 10_000)
T = TypeVar("T")


def main() -> None:
    """Print a row for each number of columns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--intervals", type=int, default=600)
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    args = parser.parse_args()
    print(
        f"| columns, {args.intervals} intervals | reading, s | dividing, s | both, of the first |"
    )
    print("|---|---|---|---|")
    first = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        for columns in args.columns:
            write(path, *load(columns, args.intervals))
            found, reading = timed(partial(read_classes, str(path)))
            target = DividedUse(found.y if found.y is not None else np.zeros(0))
            _, dividing = timed(partial(attribute, found.intervals, target))
            first = first or reading + dividing
            ratio = (reading + dividing) / first
            print(f"| {columns:,} | {reading:.2f} | {dividing:.2f} | {ratio:.1f} |", flush=True)


def load(columns: int, intervals: int) -> tuple[Array, Array]:
    """Statement times, shape (T, K), of classes that differ by orders of magnitude; the CPU."""
    rng = np.random.default_rng(1)
    rate = 10 ** rng.uniform(-2, 3, columns)
    cost = 10 ** rng.uniform(-5, -2, columns) / np.maximum(rate, 1) ** 0.7
    count = rng.poisson(rate * np.exp(0.3 * rng.normal(size=(intervals, columns)))).astype(float)
    work = count * cost * 2 * np.exp(rng.normal(0, 0.2, columns))
    return work, (count @ cost + 0.02) * np.exp(rng.normal(0, 0.03, intervals))


def write(path: Path, work: Array, y: Array) -> None:
    """The wide form: a column per class, the resource last."""
    header = ",".join([*(f"q{k}" for k in range(work.shape[1])), "cpu"])
    np.savetxt(path, np.column_stack((work, y)), "%.6g", ",", header=header, comments="")


def timed(task: Callable[[], T]) -> tuple[T, float]:
    """The task's answer, and its CPU seconds."""
    start = time.process_time()
    return task(), time.process_time() - start


if __name__ == "__main__":
    main()
