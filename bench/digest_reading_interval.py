"""What query classes lose by fewer readings of the digests: errors by the age of the agent.

    OPENBLAS_NUM_THREADS=1 python bench/digest_reading_interval.py [--servers 4]

28 classes for an hour, each at a rate that varies by itself within 7, 17, 41 and 97 seconds, a few
of which only wait; the CPU of all is divided over them without their texts. An error is
Σ|share − true share| of a minute: 0 is the same, 2 nothing alike.
"""

import argparse

import numpy as np

from agent.query_classes.resource_meter import RESOURCES
from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.result import HostUse, disagreement
from models.attribution.sliding_model import SlidingModel

CLASSES, SECONDS, MINUTE = 28, 3600, 60
PERIODS = (7, 17, 41, 97)  # seconds
SPREAD = 0.6  # the deviation of a rate's logarithm
EVERY = (1, 2, 5, 15)  # seconds between two readings
AGES = (2, 3, 5, 10, 30, 60)  # minutes
HOST = HostUse(busy=0.3, io_wait=0.0, running=0.8)


def main() -> None:
    """Print a row for each age."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=4)
    args = parser.parse_args()
    errors = np.array([errors_of(seed) for seed in range(args.servers)]).mean(axis=0)
    print(f"| minutes | {' | '.join(f'{every} s' for every in EVERY)} |")
    print("|---" * (1 + len(EVERY)) + "|")
    for age, row in zip(AGES, errors.T, strict=True):
        print(f"| {age} | {' | '.join(f'{error:.3f}' for error in row)} |")


def errors_of(seed: int) -> list[list[float]]:
    """Errors of one server by the interval and the age, shape (EVERY, AGES)."""
    count, work, used, whole = load(np.random.default_rng(seed))
    return [divided(*(summed(a, every) for a in (count, work, used, whole))) for every in EVERY]


def load(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Calls, work time and CPU per class and second, shape (SECONDS, CLASSES); the CPU of all."""
    rate = 10 ** rng.uniform(-1, 3, CLASSES)
    dear = np.where(rng.random(CLASSES) < 0.1, 100, 1) * np.minimum(1, 30 / rate) ** 0.3
    cost, waits = 10 ** rng.uniform(-5, -3, CLASSES) * dear, rng.random(CLASSES) < 0.15
    count = rng.poisson(rate * np.exp(variation(rng))).astype(np.float64)
    shape = count.shape
    used = count * np.where(waits, 0, cost) * np.exp(0.05 * rng.normal(size=shape))
    work = count * cost * np.where(waits, 20, 1.6) * np.exp(0.1 * rng.normal(size=shape))
    whole = (used.sum(axis=1) + 0.01) * np.exp(0.02 * rng.normal(size=SECONDS))
    return count, work, used, whole


def variation(rng: np.random.Generator) -> Array:
    """The logarithm of each rate over its usual one, shape (SECONDS, CLASSES)."""
    at, total = np.arange(SECONDS)[:, None], np.zeros((SECONDS, CLASSES))
    for period in PERIODS:
        own = period * np.exp(0.1 * rng.normal(size=CLASSES))
        total += np.sin(2 * np.pi * (at / own + rng.random(CLASSES)))
    scaled: Array = total * (SPREAD / total.std())
    return scaled


def summed(values: Array, every: int) -> Array:
    """Sum over so many seconds each."""
    sums: Array = values.reshape((SECONDS // every, every, *values.shape[1:])).sum(axis=1)
    return sums


def divided(count: Array, work: Array, used: Array, whole: Array) -> list[float]:
    """Divide minute by minute as the agent does; the error at each of AGES."""
    model = SlidingModel(next(r for r in RESOURCES if r.name == "cpu"), SECONDS // MINUTE)
    each, errors = len(count) // (SECONDS // MINUTE), {}
    for minute in range(SECONDS // MINUTE):
        part = slice(minute * each, (minute + 1) * each)
        block = ClassIntervals(
            names=tuple(f"class {k}" for k in range(CLASSES)),
            seconds=np.full(each, MINUTE / each),
            statement_time=work[part],
            count=count[part],
            inflight_delta=np.zeros((each, CLASSES)),
            sizes=tuple((name, 7 * count[part]) for name in ("rows_examined", "rows_sent")),
        )
        found = model.add_block(block, whole[part], HOST)
        errors[minute + 1] = disagreement(found.uses, used[part].sum(axis=0)) or 0.0
    return [errors[age] for age in AGES]


if __name__ == "__main__":
    main()
