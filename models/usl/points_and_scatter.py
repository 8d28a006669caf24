"""The points that a law is fitted to, and how well a law describes them."""

from dataclasses import dataclass, field
from functools import cached_property
from math import log, log1p, sqrt
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array
from models.numerics import NEGLIGIBLE, TINY
from models.shared_constants import CLEAR_RATIO, TOLERATED_CHANGE
from models.usl.law import Usl

LAW_PARAMETERS = 3
"""The number of the law's parameters, and the least number of points that determine them."""


@dataclass(frozen=True, eq=False)
class Points:
    """Concurrency n (threads), throughput x (queries/s), relative weights; all of one length."""

    n: Array
    x: Array
    weights: Array = field(repr=False)

    @classmethod
    def of(cls, n: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Check and convert the arrays.

        Raises ValueError for arrays that are not one-dimensional and of one length, for fewer than
        three points, and for values that are not finite and above 0 (weights: not below 0, and
        three of them above).
        """
        ns, xs = np.asarray(n, dtype=np.float64), np.asarray(x, dtype=np.float64)
        ws = np.ones(ns.shape) if weights is None else np.asarray(weights, dtype=np.float64)
        if ns.ndim != 1 or not ns.shape == xs.shape == ws.shape:
            raise ValueError("concurrency, throughput and weights must be arrays of one length")
        if (count := np.count_nonzero(ws)) < LAW_PARAMETERS:
            what = "points" if weights is None else "points with a weight"
            raise ValueError(f"at least {LAW_PARAMETERS} {what} are needed, not {count}")
        if not (_is_positive(ns) and _is_positive(xs)):
            raise ValueError("concurrency and throughput must be finite and above 0")
        if weights is not None and not (np.isfinite(ws) & (ws >= 0)).all():
            raise ValueError("weights must be finite and not below 0")
        return cls(ns, xs, ws)

    def __len__(self) -> int:
        """Count the points."""
        return len(self.n)

    def without(self, indices: tuple[int, ...]) -> "Points":
        """Return the points without those at these indices."""
        if not indices:
            return self
        kept = np.delete(np.arange(len(self)), indices)
        return Points(self.n[kept], self.x[kept], self.weights[kept])

    def nearness(self, concurrency: float, power: float) -> Array:
        """Compute how near each point is to this concurrency, shape (points,): 1 at it, else less.

        With power 2 it is 1/4 at half of the concurrency and 1/2 at twice: it falls more slowly
        above, where throughput is flat and more than half of it remains.
        """
        if power == 0:
            return np.ones_like(self.n)
        near: Array = np.minimum(self.n / concurrency, np.sqrt(concurrency / self.n)) ** power
        return near

    def to_power(self, exponent: float) -> "Points":
        """Raise N and X, each relative to its greatest, to a power."""
        n, x = self.n / self.n.max(), self.x / self.x.max()
        return Points(n**exponent, x**exponent, self.weights)

    def r_squared(self, fitted: Array) -> float | None:
        """Compute 1 − SSE/SST on the throughput, given a law's X(N), queries/s, shape (points,).

        None when all throughputs are equal.
        """
        total = float(np.sum((self.x - self.x.mean()) ** 2))
        error = float(np.sum((self.x - fitted) ** 2))
        return 1 - error / total if total > 0 else None

    @property
    def growth(self) -> tuple[float, float]:
        """dlnX/dlnN while the load rose by its last 25 %, and before: 1 is proportional, 0 is flat.

        It is the slope between the mean of the highest level and what was measured at 1/1.25 of its
        load, or at the next level where that is lower. nan where nothing was measured there.
        """
        n, x = self._levels
        top, x_top = float(n[-1]), float(x[-1])
        slopes = [float("nan")] * 2
        for i in range(len(slopes)):
            lower = n[n < top - NEGLIGIBLE]
            if not len(lower):
                break
            before = max(min(top - log(CLEAR_RATIO), float(lower[-1])), float(n[0]))
            x_before = float(np.interp(before, n, x))
            slopes[i] = (x_top - x_before) / (top - before)
            top, x_top = before, x_before
        return slopes[0], slopes[1]

    def best_level(self) -> float:
        """Find the level of concurrency with the greatest throughput, threads."""
        n, x = self._levels
        return float(np.exp(n[np.argmax(x)]))

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        """Average ln N and ln X over levels of concurrency, the lowest first."""
        n, x = np.log(self.n), np.log(self.x)
        level = np.floor((n.max() - n) / log1p(TOLERATED_CHANGE) + NEGLIGIBLE).astype(int)
        count = np.bincount(level)
        occupied = np.flatnonzero(count)[::-1]
        sums = (np.bincount(level, column)[occupied] for column in (n, x))
        mean_n, mean_x = (each / count[occupied] for each in sums)
        return mean_n, mean_x


def _is_positive(values: Array) -> bool:
    """Return whether all values are finite and above 0; a minimum is nan where any value is."""
    return bool(values.min() > 0 and values.max() < np.inf)


@dataclass(frozen=True)
class Scatter:
    """The scatter of points about a law up to its peak; those beyond follow no law."""

    points: int
    """The number of all points: those beyond the peak show where it is, too."""
    squares: float
    """Sum of the squared relative errors."""
    pattern: float
    """Root mean square of the part of the errors that the neighbour's error predicts."""
    pattern_score: float
    """The neighbours' correlation over its standard deviation for independent errors."""


def scatter_about(law: Usl, points: Points, errors: Array, near: Array) -> Scatter:
    """Measure the relative errors about the law, in the order of N, and their correlation.

    errors are ln X − ln X(N); they and near have shape (points,). Von Neumann (1941): independent
    errors have Σ(difference to the next)² = 2Σ(error)²; half the ratio is 1 within 1/√points.
    Errors are weighted as in the fit: near is 1 next to the peak.
    """
    order = np.argsort(points.n, kind="stable")
    n, errors = points.n[order], errors * np.sqrt(near / near.mean())
    up_to = max(CLEAR_RATIO * (law.n_max or np.inf), float(n[LAW_PARAMETERS - 1]))
    errors = errors[order][n <= up_to]
    count, squares = len(errors), float(errors @ errors)
    steps = np.diff(errors)
    alike = 1 - float(steps @ steps) / max(2 * squares, TINY) * count / (count - 1)
    return Scatter(
        points=len(points),
        squares=squares,
        pattern=sqrt(squares / count * max(alike, 0.0)),
        pattern_score=alike * sqrt(count),
    )
