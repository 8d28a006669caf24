"""A test of whether a series of measurements rises significantly."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SURE = 2.0  # standard errors
MATTERS = 0.005  # of the number: pages of the heap come and go
MAX_CORRELATION = 0.9  # correlation of neighbours beyond which nothing could be said
MIN_POINTS = 3  # values: a line through two leaves nothing to tell its error from


@dataclass(frozen=True)
class TrendTest:
    """By how much a straight line through the values rises from the first to the last."""

    rise: float
    error: float
    """Its standard error; that neighbours are alike makes it larger."""
    mean: float

    @property
    def is_flat(self) -> bool:
        """Whether the rise is not significant, or too small to matter."""
        return self.rise <= SURE * self.error or self.rise <= MATTERS * self.mean

    def __str__(self) -> str:
        """Format the verdict and its numbers."""
        verdict = "flat" if self.is_flat else "GROWS"
        return f"{verdict}: rises by {self.rise:.2f} ± {self.error:.2f} of {self.mean:.1f}"


def refuse_too_few(
    parser: argparse.ArgumentParser, length: float, every: float, looks: float = 1
) -> None:
    """End the program if its second half has too few measurements; `looks` are in each `every`."""
    rows = length // every if every > 0 and length > 0 else 0
    if not rows * looks >= 2 * MIN_POINTS - 1:
        parser.error(
            f"too few looks for a trend, {2 * MIN_POINTS - 1} at least: let it run for longer"
        )


def trend(values: Sequence[float]) -> TrendTest:
    """Least squares over values at even times; raises `ValueError` below three."""
    if len(values) < MIN_POINTS:
        raise ValueError(f"a trend takes {MIN_POINTS} values, here are {len(values)}")
    y = np.array(values, dtype=np.float64)
    at = np.linspace(-0.5, 0.5, len(y))
    rise = float(at @ y / (at @ at))
    off = y - y.mean() - rise * at
    square = float(off @ off)
    alike = float(off[1:] @ off[:-1]) / square if square > 0 else 0.0
    alike = min(max(alike, 0.0), MAX_CORRELATION)
    variance = square / (len(y) - 2) / float(at @ at)
    return TrendTest(rise, float(np.sqrt(variance * (1 + alike) / (1 - alike))), float(y.mean()))
