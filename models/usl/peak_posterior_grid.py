"""The likelihood and the priors of a peak on a grid of (ln Nmax, ln Xmax).

A curve of sharpness s obeys the law in powers: X^s is a USL of N^s. With s = 1 that is the law
itself; s = 2 grows straighter, bends more sharply and stays flatter, as do curves that end where
all cores are busy. With u = Nmax^−s and v = Xmax^−s the residence time in powers is

    (N/X)^s = v·N^s + A·(1 − u·N^s)²                                     (1)

which is linear in A, so that A integrates out. The data enter through nine weighted moments,
however many points there are. N is in units of the greatest N seen, X of the greatest X seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE, ROUNDING
from models.robust_regression import MIN_FREEDOM
from models.shared_constants import QUERY_VARIATION
from models.usl.points_and_scatter import Points
from models.usl.residence_curve import ResidenceCurve, powers_of

GRID_SIZE = 48
LOG_CUT, BLURRED_LOG_CUT = 9.0, 6.0
"""The next, finer grid leaves out cells whose ln p is below the highest by more than this. The
second is for the blurred posterior, whose tails are too heavy."""

EFFICIENCY_PRIOR = (0.4, 0.25)
"""Mean and deviation of a normal A·u/v, the efficiency at the peak relative to that of the lightest
load. 0.5: a coherency cost without contention; less: contention; more: superlinear at first."""
N_RANGE = (-4.3, 6.2)
X_RANGE = (-1.5, 6.0)
"""The ranges of the first grid: ln(Nmax / greatest N seen), ln(Xmax / greatest X seen)."""
FIRST_ROWS = np.linspace(*N_RANGE, GRID_SIZE)
PLACES = np.arange(GRID_SIZE) / (GRID_SIZE - 1)
"""The places of a row's cells between its ends, 0 and 1."""


@dataclass(frozen=True)
class PeakPrior:
    """The prior of the peak: ln(Nmax / concurrency with the best throughput) is normal."""

    mean: float
    deviation: float
    nearness: float = 0.0
    """A point at 1/k of the concurrency with the best throughput counts 1/k^nearness as much; one
    at k times it 1/k^(nearness/2)."""

    def given_best(self, n_best: float) -> "PeakPrior":
        """Return the prior of ln Nmax if throughput is best at this concurrency, threads.

        Of the range seen: the level with the greatest throughput, or where a fitted curve has it.
        """
        return replace(self, mean=self.mean + log(n_best))


LIVE_PRIOR = PeakPrior(log(2), 1.5)
"""A server in production may run anywhere below its peak, and its points follow one law."""
TABLE_PRIOR = PeakPrior(log(3), 0.7, nearness=2.0)
"""The levels of a table rise towards the peak, mostly doubling. Over so wide a range the law is an
approximation: a level says less about the peak the farther it is from it."""


@dataclass(frozen=True, eq=False)
class PowerSums:
    """Weighted power sums of the linearised points in powers (equation 1), of one shape or more."""

    sharpness: float | Array
    """A number; for several shapes, an array of shape (shapes, 1, 1)."""
    powers: Array
    """Σ w·m^k, k = 0..4, m = N^s; shape (5,), or (5, shapes, 1, 1)."""
    products: Array
    """Σ w·z·m^k, k = 0..2, likewise; z is the residence time in powers, linearised in its
    logarithm."""
    square: float | Array
    """Σ w·z², of the same shape as sharpness."""
    count: float
    """The effective number of points, as evidence of the noise."""
    n_scale: float
    x_scale: float
    prior: PeakPrior
    """The prior of ln Nmax, threads."""

    @classmethod
    def of(
        cls, points: Points, curve: ResidenceCurve, sharpness: float, count: float, prior: PeakPrior
    ) -> "PowerSums":
        """Compute the moments of ln R, linearised about a curve fitted to the points' powers.

        Weights are w/(s·R̂)² and z = R̂·(1 + ln(R/R̂)): an error of ln R is s times one of ln X.
        """
        powered = points.to_power(sharpness)
        m, r = powered.n, powered.n / powered.x
        fitted = curve.residence_time(m) * curve.r_scale
        z, w = fitted * (1 + np.log(r / fitted)), curve.weights / (sharpness * fitted) ** 2
        powers = powers_of(m)
        return cls(
            sharpness=sharpness,
            powers=powers @ w,
            products=powers[:3] @ (w * z),
            square=float(np.sum(w * z * z)),
            count=count,
            n_scale=float(points.n.max()),
            x_scale=float(points.x.max()),
            prior=prior,
        )

    @classmethod
    def stacked(cls, shapes: Sequence["PowerSums"]) -> "PowerSums":
        """Stack the moments of several shapes of the same points, to halve the time in numpy."""
        return replace(
            shapes[0],
            sharpness=np.array([shape.sharpness for shape in shapes])[:, None, None],
            powers=np.array([shape.powers for shape in shapes]).T[..., None, None],
            products=np.array([shape.products for shape in shapes]).T[..., None, None],
            square=np.array([shape.square for shape in shapes])[:, None, None],
        )

    def best_a(self, u: Array, v: Array) -> tuple[Array, Array, Array]:
        """Regress on A: return the estimate, its weight Σ w·f², f = (1 − u·m)², residual squares.

        The estimate is linear in v, so the squares are quadratic. u's shape broadcasts to that
        of v, which the results have.
        """
        s0, s1, s2, s3, s4 = self.powers
        t0, t1, t2 = self.products
        ff = s0 + u * (-4 * s1 + u * (6 * s2 + u * (-4 * s3 + u * s4)))
        ff = np.maximum(ff, ROUNDING * s0)
        fn, fz = s1 + u * (-2 * s2 + u * s3), t0 + u * (-2 * t1 + u * t2)
        level, slope = fz / ff, fn / ff
        squares = v * (s2 - slope * fn)
        squares += 2 * (level * fn - t1)
        squares *= v
        squares += self.square - level * fz
        return level - slope * v, ff, squares

    def noise(self, squares: Array) -> Array:
        """Compute Σ w·(relative error)² with the pseudo points, of the shape given."""
        total: Array = np.maximum(squares, 0) + MIN_FREEDOM * QUERY_VARIATION**2
        return total


@dataclass(frozen=True, eq=False)
class Grid:
    """The log posterior of each shape over ln Nmax (rows) and ln Xmax, in the moments' units.

    Each row has its own range of ln Xmax, since the likely cells are a narrow, bent ridge.
    """

    moments: PowerSums
    ln_n: Array
    """Shape (shapes, rows)."""
    ln_x: Array
    """Shape (shapes, rows, columns), even steps in each row; all that follow likewise."""
    ln_prior: Array
    """The log prior of the peak, and of the most likely A there."""
    noise: Array
    a: Array
    """A at each cell, the most likely one; and the inverse of its variance."""
    a_precision: Array

    @property
    def steps(self) -> Array:
        """The width of a cell in ln Xmax, shape (shapes, rows)."""
        widths: Array = self.ln_x[..., 1] - self.ln_x[..., 0]
        return widths

    @property
    def log_p(self) -> Array:
        """The log posterior, shape (shapes, rows, columns)."""
        return self._log_posterior(self.noise)

    @property
    def blurred_log_p(self) -> Array:
        """The same if the noise were as coarse as the row's steps, to bound finer rows."""
        return self._log_posterior(
            self.noise + self.moments.count * np.square(self.steps)[..., None]
        )

    @property
    def log_shares(self) -> Array:
        """The log probability of each cell, likewise, up to a constant common to all grids."""
        area = self.steps * (self.ln_n[:, 1:2] - self.ln_n[:, :1])
        shares: Array = self.log_p + np.log(area)[..., None]
        return shares

    def _log_posterior(self, noise: Array) -> Array:
        log_p: Array = self.ln_prior - 0.5 * (MIN_FREEDOM + self.moments.count) * np.log(noise)
        return log_p


def narrowed_grid(moments: PowerSums) -> Grid:
    """Compute the posterior of several shapes on grids that narrow to where it is likely."""
    ln_n = np.tile(FIRST_ROWS, (moments.powers.shape[1], 1))
    coarse = _evaluate_grid(moments, ln_n, *(np.full(ln_n.shape, end) for end in X_RANGE))
    finer = _evaluate_grid(moments, ln_n, *_likely_columns(coarse))
    rows, bounds = _likely_rows(finer), _likely_columns(finer)
    low, high = (np.array(list(map(np.interp, rows, ln_n, bound))) for bound in bounds)
    finest = _evaluate_grid(moments, rows, low, high)
    return _evaluate_grid(moments, rows, *_likely_columns(finest))


def log_prior(moments: PowerSums, ln_n: Array) -> Array:
    """Compute the log prior of ln Nmax, of any shape, in the moments' units."""
    off = (ln_n + log(moments.n_scale) - moments.prior.mean) / moments.prior.deviation
    log_p: Array = -0.5 * off**2
    return log_p


def _evaluate_grid(moments: PowerSums, ln_n: Array, low: Array, high: Array) -> Grid:
    """Evaluate the log posterior on these rows, each from low to high in ln Xmax.

    ln_n, low and high have shape (shapes, rows). A's likelihood and its prior are combined as two
    normal densities are, and A integrates out.
    """
    ln_x = _evenly(low, high)
    s, count = moments.sharpness, MIN_FREEDOM + moments.count
    u, v = np.exp(-s * ln_n[..., None]), np.exp(-s * ln_x)
    free, ff, squares = moments.best_a(u, v)
    middle, deviation = EFFICIENCY_PRIOR
    slope = (u / deviation) / v
    noise = moments.noise(squares)
    data_precision = (ff * (count - 1)) / noise
    square = slope * slope
    precision = data_precision + square
    a = (data_precision * free + (middle / deviation) * slope) / precision
    a = np.maximum(a, v * (NEGLIGIBLE / u))  # the efficiency is above 0
    noise += np.square(a - free) * ff
    ln_prior = log_prior(moments, ln_n)[..., None] - 0.5 * np.square(slope * a - middle / deviation)
    ln_prior += 0.5 * np.log(square / precision)
    return Grid(moments, ln_n, ln_x, ln_prior, noise, a, precision)


def _likely_columns(grid: Grid) -> tuple[Array, Array]:
    """Find the range of ln Xmax where each row, blurred by its steps, is within the cut."""
    blurred, start, steps = grid.blurred_log_p, grid.ln_x[..., 0], grid.steps
    likely = blurred > blurred.max(axis=-1, keepdims=True) - BLURRED_LOG_CUT
    first = np.argmax(likely, axis=-1)
    last = GRID_SIZE - 1 - np.argmax(likely[..., ::-1], axis=-1)
    return start + (first - 1) * steps, start + (last + 1) * steps


def _likely_rows(grid: Grid) -> Array:
    """Compute finer rows that span all rows within the cut, and one more at each side."""
    tops = _vertex_heights(grid.log_p.reshape(-1, GRID_SIZE)).reshape(grid.ln_n.shape)
    ends = []
    for ln_n, top in zip(grid.ln_n, tops, strict=True):
        likely, step = ln_n[top > top.max() - LOG_CUT], ln_n[1] - ln_n[0]
        ends.append((likely[0] - step, likely[-1] + step))
    return _evenly(*np.array(ends).T)


def _evenly(low: Array, high: Array) -> Array:
    """Return even steps from low to high, of any shape, along a further axis."""
    steps: Array = low[..., None] + PLACES * (high - low)[..., None]
    return steps


def _vertex_heights(rows: Array) -> Array:
    """Compute the height of the `vertex` of each row, shape (rows,)."""
    best = np.argmax(rows, axis=1)
    height = rows[np.arange(len(rows)), best]
    inside = np.flatnonzero((best > 0) & (best < rows.shape[1] - 1))
    before, after = (rows[inside, best[inside] + step] for step in (-1, 1))
    bend = after + before - 2 * height[inside]
    is_curved = bend < 0
    slope = (after - before)[is_curved] / 2
    height[inside[is_curved]] -= slope * slope / (2 * bend[is_curved])
    tops: Array = height
    return tops


def vertex(values: Array) -> tuple[float, float]:
    """Find the vertex of the parabola at the greatest of (k,) values: place in steps, height."""
    i = int(np.argmax(values))
    if not 0 < i < len(values) - 1:
        return float(i), float(values[i])
    slope = float(values[i + 1] - values[i - 1]) / 2
    bend = float(values[i + 1] + values[i - 1] - 2 * values[i])
    if bend >= 0:
        return float(i), float(values[i])
    return i - slope / bend, float(values[i]) - slope * slope / (2 * bend)
