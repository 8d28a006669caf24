"""The posterior of the peak (Nmax, Xmax), given the points.

Two shapes are averaged, weighted by how well each explains the points: the law, and a curve that
stays straight for longer and bends more sharply (`models.usl.peak_posterior_grid`, equation 1, with
s = 1 and 2). It takes a few milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE, QUANTILES, TABLE_SIZE
from models.robust_regression import MIN_FREEDOM
from models.shared_constants import MIN_NOISE, QUERY_VARIATION
from models.usl.law import Usl, bounded_law
from models.usl.peak_posterior_grid import (
    EFFICIENCY_PRIOR,
    N_RANGE,
    PeakPrior,
    PowerSums,
    log_prior,
    narrowed_grid,
    vertex,
)
from models.usl.points_and_scatter import Points
from models.usl.residence_curve import ResidenceCurve, fit_power

SHARPNESSES = (1.0, 2.0)
"""The shapes' exponents, a priori equally likely."""
LN_N = np.linspace(*N_RANGE, 2 * TABLE_SIZE)
"""The ln Nmax at which the law with a given Xmax is sought."""
MAX_LOSS = 0.5
"""A greater error of Xmax counts as this one. Without a cap, the 90th percentile of the errors on
published curves is 22 instead of 19 % at 0.8 of the peak's load; 0.3 gives the same as 0.5."""

NORMAL_NODES = (-1.0, 1.0)
"""A normal A is represented by these deviations from its mean, equally likely (Gauss–Hermite)."""


class CredibleInterval(NamedTuple):
    """The 5 % and the 95 % quantile."""

    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The high end over the low end."""
        return self.high / self.low


class LawIntervals(NamedTuple):
    """The 90 % intervals of the law's parameters."""

    sigma: CredibleInterval
    kappa: CredibleInterval
    lam: CredibleInterval


@dataclass(frozen=True, eq=False)
class Cells:
    """The likely cells of all shapes' grids, flat, and their probabilities, which sum to 1."""

    share: Array
    ln_n: Array
    ln_x: Array
    a: Array
    a_deviation: Array
    sharpness: Array

    @classmethod
    def of_moments(cls, moments: Mapping[float, PowerSums]) -> "Cells":
        """Compute the cells from moments by sharpness; the evidence weights the shapes."""
        grid = narrowed_grid(PowerSums.stacked(list(moments.values())))
        ln_shares = grid.log_shares
        top = float(ln_shares.max())
        likely = ln_shares > top + log(NEGLIGIBLE)
        shares = np.exp(ln_shares[likely] - top)
        return cls(
            share=shares / shares.sum(),
            ln_n=np.broadcast_to(grid.ln_n[..., None], likely.shape)[likely],
            ln_x=grid.ln_x[likely],
            a=grid.a[likely],
            a_deviation=1 / np.sqrt(grid.a_precision[likely]),
            sharpness=np.broadcast_to(grid.moments.sharpness, likely.shape)[likely],
        )

    @property
    def nodes(self) -> Array:
        """The values that represent the uncertain A of each cell, shape (nodes, cells)."""
        around = self.a + np.multiply.outer(NORMAL_NODES, self.a_deviation)
        return np.maximum(around, MIN_NOISE * self.a)

    @property
    def node_shares(self) -> Array:
        """The probability of each node, shape (nodes, cells)."""
        return np.tile(self.share / len(NORMAL_NODES), (len(NORMAL_NODES), 1))

    def throughputs(self, n: float) -> tuple[Array, Array]:
        """Compute X(n) at each node of every cell, shape (nodes, cells), and its probability."""
        m = n**self.sharpness
        u, v = np.exp(-self.sharpness * self.ln_n), np.exp(-self.sharpness * self.ln_x)
        powers = m / (v * m + self.nodes * (1 - u * m) ** 2)
        return powers ** (1 / self.sharpness), self.node_shares


@dataclass(frozen=True, eq=False)
class Posterior:
    """The estimated law, and the 90 % interval and the median of its peak."""

    law: Usl
    n_max_interval: CredibleInterval
    x_max_interval: CredibleInterval
    n_max_median: float
    x_max_median: float
    moments: Mapping[float, PowerSums]
    """The moments by sharpness, from which the cells are computed."""
    n_best: float
    """The concurrency with the greatest throughput, threads: the level of a table, else the highest
    point of the fitted curve within the range seen."""
    nearness: float
    """The power by which points weighed less with their distance from n_best."""

    def throughput_band(self, n: Array) -> tuple[Array, Array]:
        """Compute the 5 % and 95 % quantile of X(N), queries/s, at each n (threads), (loads,)."""
        cells, scales = Cells.of_moments(self.moments), self.moments[1.0]
        m = np.asarray(n, dtype=np.float64) / scales.n_scale
        bounds = np.array([_quantiles(*cells.throughputs(float(mi))) for mi in m])
        return bounds[:, 0] * scales.x_scale, bounds[:, 2] * scales.x_scale

    def law_intervals(self) -> LawIntervals | None:
        """Compute the 90 % intervals of σ, κ and λ from the cells of the law's shape.

        They include the fitted law's own; a κ that is only the least A above 0 is 0. None where
        every likely curve is sharper than the law.

        By (2) of `models.usl.law`, R(N) = v·N + A(1−uN)²: 1/λ = v + A(1−u)², σ = 1 − Aλ,
        κ = A·u²·λ.
        """
        cells, scales = Cells.of_moments(self.moments), self.moments[1.0]
        is_law = cells.sharpness == 1.0
        if not is_law.any():
            return None
        u, v = (np.exp(-ln[is_law]) for ln in (cells.ln_n, cells.ln_x))
        u, v = u / scales.n_scale, v / scales.x_scale
        a = cells.nodes[:, is_law] * (scales.n_scale / scales.x_scale)
        a = np.minimum(a, _greatest_a(u, v))
        lam = 1 / (v + a * (1 - u) ** 2)
        shares = cells.node_shares[:, is_law]
        shares /= shares.sum()
        kappa = a * u * u * lam
        found = (1 - a * lam, np.where(kappa < NEGLIGIBLE, 0.0, kappa), lam)
        point = (self.law.sigma, self.law.kappa, self.law.lam)
        return LawIntervals(
            *(_including(p, _quantiles(f, shares)) for p, f in zip(point, found, strict=True))
        )


def posterior_of(points: Points, curve: ResidenceCurve, prior: PeakPrior) -> Posterior:
    """Compute the posterior of the peak, and the law whose peak is the best estimate.

    Where the prior lets points weigh less with their distance from the best concurrency, that is
    the level with the greatest throughput; else it is where the curve is greatest.
    """
    best = points.best_level() if prior.nearness else curve.best_concurrency(points.n)
    nearness = points.nearness(best, prior.nearness)
    near = replace(curve, weights=curve.weights * nearness)
    count, peak_prior = float(curve.weights @ np.sqrt(nearness)), prior.given_best(best)
    linear = fit_power(points, 1.0, near) if prior.nearness else curve.relative_to_greatest(points)
    shapes = {s: linear if s == 1.0 else fit_power(points, s, near) for s in SHARPNESSES}
    moments = {s: PowerSums.of(points, shape, s, count, peak_prior) for s, shape in shapes.items()}
    cells = Cells.of_moments(moments)
    n_scale, x_scale = moments[1.0].n_scale, moments[1.0].x_scale
    n_low, n_mid, n_high = np.exp(_quantiles(cells.ln_n, cells.share)) * n_scale
    ln_x = _quantiles(cells.ln_x, cells.share)
    law = _law_with_x_max(_estimate_ln_x(cells, float(ln_x[0]), float(ln_x[2])), moments[1.0])
    x_low, x_mid, x_high = np.exp(ln_x) * x_scale
    if prior.nearness:  # the prior does not allow for tables that end at their peak
        x_low = min(x_low, x_scale * (1 - QUERY_VARIATION))
    n_max = law.n_max or float(n_mid)
    return Posterior(
        law=law,
        n_max_interval=CredibleInterval(min(float(n_low), n_max), max(float(n_high), n_max)),
        x_max_interval=CredibleInterval(float(x_low), float(x_high)),
        n_max_median=float(n_mid),
        x_max_median=float(x_mid),
        moments=moments,
        n_best=best,
        nearness=prior.nearness,
    )


def _estimate_ln_x(cells: Cells, low: float, high: float) -> float:
    """Find the ln Xmax with the least expected error relative to the truth, capped.

    low and high are the ends of the 90 % interval of ln Xmax, within which the estimate lies. All
    errors beyond `MAX_LOSS` count the same, so that a long tail, of a peak that may be anywhere
    above, does not pull the estimate up.
    """
    width = (high - low) / TABLE_SIZE
    places = np.clip((cells.ln_x - low) / width, 0, TABLE_SIZE - 1).astype(np.intp)
    shares = np.bincount(places, cells.share, TABLE_SIZE)
    errors = np.abs(np.expm1(width * np.arange(1 - TABLE_SIZE, TABLE_SIZE)))
    expected = np.convolve(np.minimum(errors, MAX_LOSS), shares, "valid")
    return float(low + width * (np.argmin(expected) + 0.5))


def _quantiles(values: Array, shares: Array) -> Array:
    """Compute the 5 %, 50 % and 95 % quantile of values that have these probabilities."""
    order = np.argsort(values, axis=None)
    ordered, p = values.ravel()[order], shares.ravel()[order]
    return np.interp(QUANTILES, np.cumsum(p) - p / 2, ordered)


def _including(value: float, quantiles: Array) -> CredibleInterval:
    """Build an interval from the outer quantiles, widened to include the value."""
    return CredibleInterval(min(float(quantiles[0]), value), max(float(quantiles[2]), value))


def _law_with_x_max(ln_x: float, moments: PowerSums) -> Usl:
    """Find the most likely law with this Xmax, over Nmax and A, with σ ≥ 0."""
    a, log_p = _most_likely_a(LN_N, ln_x, moments)
    position, _ = vertex(log_p)
    peak = np.interp([position], np.arange(len(LN_N)), LN_N)
    a, _ = _most_likely_a(peak, ln_x, moments)
    n_scale, x_scale = moments.n_scale, moments.x_scale
    n_max, x_max = exp(float(peak[0])) * n_scale, exp(ln_x) * x_scale
    return law_with_peak(n_max, x_max, float(a[0]) * n_scale / x_scale)


def _most_likely_a(ln_n: Array, ln_x: float, moments: PowerSums) -> tuple[Array, Array]:
    """Find the A of the most likely law with this Xmax and each Nmax, and its log probability."""
    u, v = np.exp(-ln_n), np.full(len(ln_n), exp(-ln_x))
    free, ff, squares = moments.best_a(u, v)
    least, one = NEGLIGIBLE * v / u, 1 / moments.n_scale
    most = _greatest_a(u * one, v * one)
    a = np.maximum(np.minimum(free, most * (1 + NEGLIGIBLE)), least)
    noise = moments.noise(squares + (a - free) ** 2 * ff)
    off = (a * u / v - EFFICIENCY_PRIOR[0]) / EFFICIENCY_PRIOR[1]
    log_p = log_prior(moments, ln_n) - 0.5 * (MIN_FREEDOM + moments.count) * np.log(noise)
    return a, log_p - 0.5 * off**2


def law_with_peak(n_max: float, x_max: float, a: float) -> Usl:
    """Build the law with this peak and, as near as σ ≥ 0 allows, this A = R(0) (seconds).

    R(1) = 1/λ = v + A(1−u)², σ = 1 − Aλ, κ = A·u²·λ with u = 1/Nmax, v = 1/Xmax.
    """
    u, v = 1 / n_max, 1 / x_max
    most = float(_greatest_a(np.array(u), np.array(v)))
    lam = 1 / (v + min(a, most) * (1 - u) ** 2)
    sigma = 0.0 if a >= most else 1 - a * lam
    return bounded_law(sigma, min(a, most) * u * u * lam, lam)


def _greatest_a(u: Array, v: Array) -> Array:
    """Compute the A (seconds) with which σ = 0, v/(1 − (1 − u)²); both of the same shape.

    u is per thread. There is no bound where Nmax is half a thread or less: σ > 0 with any A.
    """
    linear = 1 - (1 - u) ** 2
    bound: Array = np.divide(v, linear, out=np.full(u.shape, np.inf), where=linear > 0)
    return bound
