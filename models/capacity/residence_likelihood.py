"""The likelihood of the points for each place of the peak, by several forms of the residence time.

They are the law; the law beside a queue at the resource of the nearest limit, which is no sign of
another limit; and beside that queue one server at which all queue (a lock), whose residence time
rises later and more steeply. As in the law's posterior, R = v·N + A·(1 − u·N)² with u = 1/Nmax, v =
1/Xmax, linear in A. The shape Nmax/(A·Xmax) is 2 for coherency alone and grows with the share of
contention.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.capacity.goodness_of_fit import MergedPoints
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.numerics import ROUNDING, TINY, median, quantile
from models.robust_regression import MIN_FREEDOM, TOTAL_WEIGHT, TUKEY, fit_linear, mad, persistence
from models.shared_constants import LOW_QUANTILE, MIN_NOISE, QUERY_VARIATION, SIGNIFICANT_Z
from models.trust import MAX_GROWTH
from models.usl.peak_posterior_grid import GRID_SIZE
from models.usl.residence_curve import RELATIVE_ERROR, powers_of

SHAPE_EDGE = 0.15
"""How far below 2 noise may make Nmax/(A·Xmax) seem. It is 2 + (σ−κ)·Nmax/(1−σ), of which the
second part has the median 1 (Cisco UCS: 0.9; σ = 0.03 at Nmax = 40: 1.2)."""
SHAPE_RANGE = (0.7, 40.0)
QUEUE_PRIOR = (float(np.log(0.6)), 0.8)
"""ln c of a queue c·S·ρ/(1−ρ), mean and deviation; c is 1 with random times, half with equal ones,
less in a closed loop."""
QUEUE_STRENGTHS = np.exp(
    QUEUE_PRIOR[0] + QUEUE_PRIOR[1] * np.linspace(-SIGNIFICANT_Z, SIGNIFICANT_Z, 6)
)
"""The values of c that are tried for each of two queues, within two deviations."""
LN_STRENGTH_PRIOR = -0.5 * ((np.log(QUEUE_STRENGTHS) - QUEUE_PRIOR[0]) / QUEUE_PRIOR[1]) ** 2
"""ln of the prior of each of them."""
QUEUE_EXPONENTS = np.arange(0.0, 7.0, 2.0)
"""The exponents k that are tried for a queue before several servers."""
SHAPES = np.geomspace(*SHAPE_RANGE, GRID_SIZE)
COARSE_SHAPES = SHAPES[::2]
"""Those that represent all of them beside a queue."""
CELLS_AT_ONCE = 1 << 14
"""So many cells at most are computed at once: the arrays of all would not fit the cache."""


class PeakGrid(NamedTuple):
    """The possible peaks; both arrays of shape (peaks,)."""

    ln_peak: Array
    """ln of the scaled peak."""
    prior: Array
    """The prior probability of each, up to a constant factor: improbable ones are not computed."""


class QueuesRemoved(NamedTuple):
    """Residence times without queues at the limit's resource, for each try of these queues."""

    ln_p: Array
    """ln of the prior of each try, shape (tries,)."""
    rest: Array
    """The remaining residence times, shape (tries, points)."""


@dataclass(frozen=True, eq=False)
class ResidenceModels:
    """The points in units of the greatest N and X, linearised in ln R, X ascending.

    Arrays have shape (points,), where not said otherwise.
    """

    x: Array
    z: Array
    """R̂·(1 + ln(R/R̂)) about a curve R̂."""
    w: Array
    """Weights of z: each point's own over R̂²."""
    m: Array
    busy: Array
    """As in `MergedPoints`."""
    starts: NDArray[np.intp]
    """The first point of each of the groups, shape (groups,)."""
    idle: float
    """R of statements that do not wait: its `LOW_QUANTILE`."""
    weight: float
    ln_error_ratio: float
    """ln of the factor by which errors of N are smaller as those of R(N) than as those of R(X)."""
    x_scale: float
    n_scale: float

    @classmethod
    def of(cls, points: MergedPoints) -> "ResidenceModels":
        """Linearise the points about a smooth curve."""
        n, x, weights, n_variance, busy = points
        n_scale, x_scale = float(n.max()), float(x.max())
        m, r = n / n_scale, n / x * (x_scale / n_scale)
        r = r * (1 + 0.5 * n_variance / n**2)  # E ln N is lower than ln E N by half of this
        fitted, w, growth = _linearise(m, r, weights, n_variance / n_scale**2)
        z = fitted * (1 + np.log(r / fitted))
        order = np.argsort(x)
        order = order[w[order] > 0]
        groups = min(GRID_SIZE, len(order))
        return cls(
            x=x[order] / x_scale,
            z=z[order],
            w=(w / fitted**2)[order],
            m=m[order],
            busy=busy[order],
            starts=np.arange(groups) * len(order) // groups,
            idle=quantile(r, LOW_QUANTILE),
            weight=float(w.sum()),
            ln_error_ratio=float(w @ np.log(np.clip(np.abs(growth), MAX_GROWTH, 1.0))),
            x_scale=x_scale,
            n_scale=n_scale,
        )

    def likelihood_by_law(self, peaks: PeakGrid) -> Array:
        """Compute ln p(points | peak) by the law, up to a constant; its shape is summed out.

        The result has shape (peaks,), here and below.
        """
        return self._ln_p_by_law(peaks, QueuesRemoved(np.zeros(1), self.z[None, :]), SHAPES)

    def likelihood_by_law_and_limit(self, peaks: PeakGrid, removed: QueuesRemoved) -> Array:
        """Compute the same for the law beside a queue at the limit's resource.

        R = b·S·U^k/(1−U) + v·N + A·(1−u·N)².
        """
        return self._ln_p_by_law(peaks, removed, COARSE_SHAPES)

    def likelihood_by_lock_and_limit(self, peaks: PeakGrid, removed: QueuesRemoved) -> Array:
        """Compute the same for a lock in place of the law.

        R = a + b·S·U^k/(1−U) + c·ρ/(1−ρ)/peak, ρ = X/peak (M/M/1: c = 1); a in closed form, b, k
        and c are summed out. Cells of shape (peaks, c, tries).
        """
        queue, rest = self._lock_queue(peaks), self._group_means(removed.rest)
        w = np.add.reduceat(self.w, self.starts)
        g0, g1, g2 = float(w.sum()), queue @ w, np.square(queue) @ w
        z1, gz, zz = rest @ w, queue @ (rest * w).T, np.square(removed.rest) @ self.w
        c = QUEUE_STRENGTHS[:, None]
        rss = c * (g2 - g1**2 / g0)[:, None, None] - 2 * (gz - g1[:, None] * z1 / g0)[:, None]
        rss *= c
        rss += zz - z1**2 / g0
        rss[c * g1[:, None, None] >= z1] = 1 / TINY  # impossible
        ln_prior = LN_STRENGTH_PRIOR[:, None] + removed.ln_p
        return self._ln_mean_likelihood(rss, peaks.prior, lambda _: ln_prior)

    def remove_limit_queues(self) -> QueuesRemoved:
        """Subtract queues at the limit's resource from the residence times: R − b·S·U^k/(1−U).

        U is its measured utilisation, S = U/X. The more servers it has, the later they queue: k =
        √(2(m+1)) − 1 (H. Sakasegawa 1977), and 0 where the rest of R contains no S.
        """
        u = np.clip(self.busy, MIN_NOISE, FULL_UTILISATION)
        wait = u / (1 - u) / (self.x * self.n_scale)
        queues = QUEUE_STRENGTHS[:, None, None] * wait * u ** QUEUE_EXPONENTS[:, None]
        rest = self.z - queues.reshape(-1, len(u))
        return QueuesRemoved(np.repeat(LN_STRENGTH_PRIOR, len(QUEUE_EXPONENTS)), rest)

    def _ln_p_by_law(self, peaks: PeakGrid, removed: QueuesRemoved, shapes: Array) -> Array:
        """Compute ln p of z = v·N + A·(1 − u·N)², A in closed form; tries and shapes summed out.

        With f = (1 − u·N)² and y = A·|f|, |f|² = Σ w·f², the sum of squares is c + y·(y − 2·best),
        where best is y without a bound. Cells of shape (peaks, shapes, tries).
        """
        z, powers = removed.rest, powers_of(self.m)
        s, t = (powers @ self.w).tolist(), powers[:3] @ (z * self.w).T
        v = np.exp(-peaks.ln_peak)[:, None]
        by_shape = shapes * self.idle
        u = v / by_shape
        ff = s[0] + u * (-4 * s[1] + u * (6 * s[2] + u * (-4 * s[3] + u * s[4])))
        size = np.sqrt(np.maximum(ff, ROUNDING * s[0]))
        fn = s[1] + u * (-2 * s[2] + u * s[3])
        f = np.stack([1 / size, -2 * u / size, u * u / size, -v * fn / size], axis=2)
        least, scale = 1e-3 * self.idle * size, by_shape * size
        c = np.square(z) @ self.w - 2 * v * t[1] + s[2] * np.square(v)
        columns = np.vstack([t, np.ones(len(z))])
        best = (f.reshape(-1, 4) @ columns).reshape(*size.shape, len(z))
        y = np.maximum(best, least[:, :, None])
        best *= -2
        best += y
        best *= y
        best += c[:, None]

        def ln_prior(which: NDArray[np.intp]) -> Array:
            return _ln_shape_prior(scale[which, :, None] / y[which]) + removed.ln_p

        return self._ln_mean_likelihood(best, peaks.prior, ln_prior)

    def _group_means(self, values: Array) -> Array:
        """Average over the groups, by weight; shape (…, points) becomes (…, groups)."""
        sums, weights = (np.add.reduceat(v * self.w, self.starts, axis=-1) for v in (values, 1.0))
        means: Array = sums / np.maximum(weights, TINY)
        return means

    def _lock_queue(self, peaks: PeakGrid) -> Array:
        """Compute ρ/(1−ρ)·S of a lock that is full at each peak, shape (peaks, groups)."""
        held = np.exp(-peaks.ln_peak)[:, None]
        rho = np.minimum(self._group_means(self.x) * held, FULL_UTILISATION)
        queue: Array = rho / (1 - rho) * held / self.n_scale
        return queue

    def _ln_mean_likelihood(
        self, rss: Array, prior: Array, ln_prior: Callable[[NDArray[np.intp]], Array]
    ) -> Array:
        """Average Student's likelihood of squared relative errors over each peak's cells, in ln.

        rss has shape (peaks, strengths or shapes, tries). prior is that of the peaks, (peaks,),
        ln_prior(indices of peaks) that of their cells, at most about 0. Only peaks that matter are
        computed: all others together are within rounding.
        """
        power = 0.5 * (MIN_FREEDOM + self.weight)

        def ln_likelihood(squares: Array) -> Array:
            noise = np.maximum(squares, 0)
            noise += MIN_FREEDOM * QUERY_VARIATION**2
            ln_p = np.log(noise, out=noise)
            ln_p *= -power
            return ln_p

        def ln_mean(which: NDArray[np.intp]) -> Array:
            ln_p = ln_likelihood(rss[which])
            ln_p += ln_prior(which)
            ln_unit = float(ln_p.max())
            ln_p -= ln_unit
            means: Array = np.log(np.exp(ln_p, out=ln_p).mean(axis=(1, 2)) + TINY) + ln_unit
            return means

        ln_most = ln_likelihood(rss.reshape(len(rss), -1).min(axis=1))
        best = np.argmax(ln_most, keepdims=True)
        negligible = ROUNDING / len(rss) * prior[best] / prior.max()
        counting = np.flatnonzero(ln_most > ln_mean(best) + np.log(negligible))
        ln_p = np.full(len(rss), -np.inf)
        parts = -(-rss[0].size * len(counting) // CELLS_AT_ONCE)
        for part in np.array_split(counting, parts):
            ln_p[part] = ln_mean(part)
        return ln_p


def _ln_shape_prior(shape: Array) -> Array:
    """Compute the ln prior: log-logistic above 2, with a soft edge below; per step of ln shape."""
    over = shape - 2
    below = np.minimum(over, 0)
    over = np.maximum(over, 0, out=over)
    over += 1
    over *= over
    ln_p: Array = np.log(np.divide(shape, over, out=over), out=over)
    below /= SHAPE_EDGE
    below *= below
    below *= 0.5
    ln_p -= below
    return ln_p


def _linearise(m: Array, r: Array, weights: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Fit a curve to linearise about; return it, the weights, and dlnX/dlnN on it.

    A weight includes the effective variance, Tukey's biweight for what no smooth curve explains,
    the correlation of neighbours, and the cap.
    """
    design = np.array([np.ones_like(m), m, m * m]).T
    c = fit_linear(design, r, weights / r**2, 1e-3 * median(r)).coefficients
    fitted = np.clip(design @ c, 0.5 * float(r.min()), 2 * float(r.max()))
    sensitivity = np.clip((c[0] - c[2] * m * m) / (m * fitted), -1 / m, 1 / m)
    share = RELATIVE_ERROR**2 / (RELATIVE_ERROR**2 + sensitivity**2 * variance)
    residuals = np.log(r / fitted)
    scale = max(mad(residuals * np.sqrt(share)), RELATIVE_ERROR / 2)
    biweight = np.clip(1 - share * (residuals / (2 * TUKEY * scale)) ** 2, 0, None) ** 2
    w = weights * share * (biweight if biweight.any() else 1.0)
    w = w * (len(w) / persistence(residuals) / weights.sum())
    return fitted, w * min(1.0, TOTAL_WEIGHT / float(w.sum())), sensitivity * m
