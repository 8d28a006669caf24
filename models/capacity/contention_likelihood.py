"""How well several forms of the residence time describe the points, for each place of the peak.

The law; one server at which all queue (a lock), whose residence time rises later and more steeply;
and a queue at the resource whose limit is near, which is no sign of another limit. As in the law's
posterior, R = v·N + A·(1 − u·N)² with u = 1/Nmax, v = 1/Xmax, linear in A. The shape Nmax/(A·Xmax)
is 2 for coherency alone and grows with the share of contention.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.capacity.goodness_of_fit import Points
from models.capacity.observations import UNHINDERED
from models.capacity.resource_limit import FULL
from models.capacity.sample_sizes import NOISE
from models.numerics import ROUNDING, TINY, median, quantile
from models.robust import TOTAL_WEIGHT, TUKEY, fit_linear, mad, persistence
from models.usl.grid import PSEUDO_ERROR, PSEUDO_POINTS
from models.usl.law import Array
from models.usl.map_estimate import RELATIVE_ERROR

SHAPE_MIDDLE, SHAPE_EDGE = 1.2, 0.15
"""Nmax/(A·Xmax) − 2 = (σ−κ)·Nmax/(1−σ): its median (Cisco UCS: 0.9; σ = 0.03 at Nmax = 40: 1.2),
and how far below 0 noise may make it seem."""
SHAPE_RANGE = (0.7, 40.0)
QUEUE_PRIOR = (float(np.log(0.6)), 0.8)
"""ln c of a queue c·S·ρ/(1−ρ): 1 with random times, half with equal ones, less in a closed loop."""
QUEUE_RANGE, QUEUES, COARSE = (0.2, 6.0), 24, 6
"""Of c, and how many of it are summed; of two queues at once so many of each."""
PARALLEL = (0.0, 1.0, 2.0, 3.0, 4.5, 6.0)
"""The exponents k of a queue before several servers."""
FEWER = PARALLEL[::2]
"""Those that stand for all of them beside a lock."""
LEAST_GROWTH = 0.3
"""dlnX/dlnN counts as no less: throughput has its noise too."""
SHAPES, FEWER_SHAPES = 64, 24
"""So many of the law, and of the law beside a queue."""
GROUPS = 48
"""So many groups of neighbours in throughput stand for the points: queues hardly differ in one."""


class Beside(NamedTuple):
    """What residence times are without queues at the limit's resource, by what those may be."""

    ln_p: Array
    """Of each try, shape (tries,)."""
    rest: Array
    """Shape (tries, points)."""


@dataclass(frozen=True, eq=False)
class Shapes:
    """The points in units of the greatest N and X, linearised in the logarithm of R, X rising."""

    x: Array
    z: Array
    """R̂·(1 + ln(R/R̂)) about a curve R̂."""
    w: Array
    """Weights of z: each point's own over R̂²."""
    m: Array
    busy: Array
    """As `Points` has it."""
    starts: NDArray[np.intp]
    """The first point of each of the groups."""
    idle: float
    """R of the least loaded."""
    weight: float
    by_n: float
    """ln of how much smaller an error of N is as one of R(N) than as one of R(X)."""
    x_scale: float
    n_scale: float

    @classmethod
    def of(cls, points: Points) -> "Shapes":
        """Linearise the points about a smooth curve."""
        n, x, weights, n_variance, busy = points
        n_scale, x_scale = float(n.max()), float(x.max())
        m, r = n / n_scale, n / x * (x_scale / n_scale)
        r = r * (1 + 0.5 * n_variance / n**2)  # E ln N is lower than ln E N by half of this
        fitted, w, growth = _linearised(m, r, weights, n_variance / n_scale**2)
        z = fitted * (1 + np.log(r / fitted))
        order = np.argsort(x)
        order = order[w[order] > 0]
        groups = min(GROUPS, len(order))
        return cls(
            x=x[order] / x_scale,
            z=z[order],
            w=(w / fitted**2)[order],
            m=m[order],
            busy=busy[order],
            starts=np.arange(groups) * len(order) // groups,
            idle=quantile(r, UNHINDERED),
            weight=float(w.sum()),
            by_n=float(w @ np.log(np.clip(np.abs(growth), LEAST_GROWTH, 1.0))),
            x_scale=x_scale,
            n_scale=n_scale,
        )

    def likelihood_by_law(self, ln_peak: Array) -> Array:
        """Compute ln p(points | peak) by the law, up to a constant; its shape is summed out.

        ln_peak, the ln of the scaled peak, and the answer have shape (peaks,), here and below.
        """
        return self._by_law(ln_peak, Beside(np.zeros(1), self.z[None, :]), SHAPES)

    def likelihood_by_queue(self, ln_peak: Array) -> Array:
        """Compute the same for one server at which all queue: R = a + c·S·ρ/(1−ρ), ρ = X·S.

        Shape (peaks,). S = 1/peak is how long a query holds it (M/M/1: c = 1); c is summed out.
        """
        return self._by_queue(self._lock(ln_peak))

    def likelihood_by_limit(self, ln_peak: Array) -> Array:
        """Compute the same for a queue at the limit's resource: R = a + c·S·ρ^k/(1−ρ), S = U/X.

        ln_peak has shape (peaks,), busy, the utilisation of the resource, (points,). The more
        servers it has, the later they queue: k = √(2(m+1)) − 1 (H. Sakasegawa 1977), and 0 where a
        contains no S. U = a·X/(1 + w·X) as in `demand`; ρ = U over U at the peak, or over 1.
        """
        first, second = self._fitted_busy(self.x * self.x)
        smooth = np.clip(first * self.x + second * self.x * self.x, 0.0, 1.0)
        a, w = self._fitted_busy(-self.x * smooth)
        peak, x = np.exp(ln_peak), self._grouped(self.x)
        end = np.minimum(a * peak / np.maximum(1 + w * peak, NOISE), 1.0)
        u = np.maximum(a * x / np.maximum(1 + w * x, NOISE), NOISE)
        rho = np.minimum(u / np.maximum(end, NOISE)[:, None], FULL)
        queue = u / (x * self.n_scale) / (1 - rho)
        queues = np.exp(np.array(PARALLEL)[:, None, None] * np.log(rho)) * queue
        by_servers = self._by_queue(queues.reshape(-1, len(x)))
        ln_p: Array = np.logaddexp.reduce(by_servers.reshape(len(PARALLEL), -1))
        return ln_p

    def _fitted_busy(self, beside: Array) -> Array:
        """Fit how busy the resource was by X and something beside it; two coefficients."""
        root = np.sqrt(self.w)
        design = np.column_stack([self.x, beside]) * root[:, None]
        return np.asarray(np.linalg.lstsq(design, self.busy * root, rcond=None)[0])

    def likelihood_by_both(self, ln_peak: Array, beside: "Beside") -> Array:
        """Compute the same for both queues, the limit's resource as busy as measured; (peaks,).

        R = a + b·S·U^k/(1−U) + c·ρ/(1−ρ)/peak, ρ = X/peak; b, k and c are summed out.
        """
        ln_p: Array = self._with_queue(self._lock(ln_peak), beside, COARSE) + np.log(len(PARALLEL))
        return ln_p

    def likelihood_by_law_and_limit(self, ln_peak: Array, beside: "Beside") -> Array:
        """Compute the same, shape (peaks,), for the law in place of the lock.

        R = b·S·U^k/(1−U) + v·N + A·(1−u·N)².
        """
        return self._by_law(ln_peak, beside, FEWER_SHAPES)

    def beside_limit(self) -> "Beside":
        """Subtract queues at the limit's resource from the residence times: R − b·S·U^k/(1−U)."""
        u = np.clip(self.busy, NOISE, FULL)
        wait = u / (1 - u) / (self.x * self.n_scale)
        b = _evenly(*QUEUE_RANGE, COARSE)
        resource_limits = b[:, None, None] * wait * u ** np.array(FEWER)[:, None]
        rest = self.z - resource_limits.reshape(-1, len(u))
        return Beside(np.repeat(_ln_strength_prior(b), len(FEWER)), rest)

    def _by_law(self, ln_peak: Array, beside: "Beside", shapes: int) -> Array:
        """Compute ln p of z = v·N + A·(1 − u·N)², A in closed form; tries and shapes summed out.

        With f = (1 − u·N)² and y = A·|f|, |f|² = Σ w·f², the squares left are c + y·(y − 2·best),
        where best is y without a bound.
        """
        z = beside.rest
        s = [float(self.w @ self.m**k) for k in range(5)]
        t = z @ (self.w[:, None] * self.m[:, None] ** np.arange(3))
        v, by_shape = np.exp(-ln_peak)[:, None], _evenly(*SHAPE_RANGE, shapes) * self.idle
        u = v / by_shape
        ff = s[0] + u * (-4 * s[1] + u * (6 * s[2] + u * (-4 * s[3] + u * s[4])))
        size = np.sqrt(np.maximum(ff, ROUNDING * s[0]))
        fn = s[1] + u * (-2 * s[2] + u * s[3])
        f = np.stack([1 / size, -2 * u / size, u * u / size]).reshape(3, -1)
        along, least, scale = v * fn / size, 1e-3 * self.idle * size, by_shape * size
        c = (np.square(z) @ self.w)[:, None] - 2 * t[:, 1:2] * v.T + s[2] * np.square(v.T)
        best = (t @ f).reshape(-1, *u.shape)
        best -= along
        y = np.maximum(best, least)
        best *= -2
        best += y
        best *= y
        best += c[:, :, None]
        p, ln_unit = self._p(best, *_shape_prior(scale / y))
        weights = np.exp(beside.ln_p) / (len(z) * shapes)
        ln_p: Array = np.log(weights @ p.sum(axis=2) + TINY) + ln_unit
        return ln_p

    def _grouped(self, values: Array) -> Array:
        """Average over the groups, by weight; shape (…, points) becomes (…, groups)."""
        sums, weights = (np.add.reduceat(v * self.w, self.starts, axis=-1) for v in (values, 1.0))
        means: Array = sums / np.maximum(weights, TINY)
        return means

    def _lock(self, ln_peak: Array) -> Array:
        """Compute ρ/(1−ρ)·S of a lock that is full at each peak, shape (peaks, groups)."""
        held = np.exp(-ln_peak)[:, None]
        rho = np.minimum(self._grouped(self.x) * held, FULL)
        queue: Array = rho / (1 - rho) * held / self.n_scale
        return queue

    def _by_queue(self, queue: Array) -> Array:
        """Sum c out of R = a + c·queue; a queue of shape (peaks, groups)."""
        return self._with_queue(queue, Beside(np.zeros(1), self.z[None, :]), QUEUES)

    def _with_queue(self, queue: Array, beside: "Beside", strengths: int) -> Array:
        """Compute ln p of z = a + c·queue, a in closed form; tries and so many c are summed out.

        A queue of shape (peaks, groups); cells of shape (c, tries, peaks).
        """
        w, rest = np.add.reduceat(self.w, self.starts), self._grouped(beside.rest)
        g0, g1, g2 = float(w.sum()), queue @ w, np.square(queue) @ w
        z1, gz, zz = rest @ w, (rest * w) @ queue.T, np.square(beside.rest) @ self.w
        c = _evenly(*QUEUE_RANGE, strengths)
        rss = c[:, None, None] * (g2 - g1**2 / g0) - 2 * (gz - z1[:, None] * g1 / g0)
        rss *= c[:, None, None]
        rss += (zz - z1**2 / g0)[:, None]
        prior = np.exp(_ln_strength_prior(c)[:, None] + beside.ln_p)[:, :, None]
        p, ln_unit = self._p(rss, prior * (c[:, None, None] * g1 < z1[:, None]))
        ln_p: Array = np.log(np.mean(p, axis=(0, 1)) + TINY) + ln_unit
        return ln_p

    def _p(self, rss: Array, prior: Array, ln_prior: Array | float = 0.0) -> tuple[Array, float]:
        """Weigh sums of squared relative errors by Student's likelihood and a prior, in place.

        In units of the most likely, and the logarithm of that unit.
        """
        power = -0.5 * (PSEUDO_POINTS + self.weight)
        np.maximum(rss, 0, out=rss)
        rss += PSEUDO_POINTS * PSEUDO_ERROR**2
        ln_p = np.log(rss, out=rss)
        ln_unit = power * float(ln_p.min())
        ln_p *= power
        ln_p += ln_prior - ln_unit
        p = np.exp(ln_p, out=ln_p)
        p *= prior
        return p, ln_unit


@cache
def _evenly(low: float, high: float, count: int) -> Array:
    """So many numbers, even in their logarithms."""
    return np.geomspace(low, high, count)


def _ln_strength_prior(c: Array) -> Array:
    mean, deviation = QUEUE_PRIOR
    ln_p: Array = -0.5 * ((np.log(c) - mean) / deviation) ** 2
    return ln_p


def _shape_prior(shape: Array) -> tuple[Array, Array]:
    """Log-logistic above 2, and the logarithm of a soft edge below; per step of ln shape."""
    over = shape - 2
    ln_edge = np.minimum(over, 0)
    ln_edge *= ln_edge
    ln_edge *= -0.5 / SHAPE_EDGE**2
    np.maximum(over, 0, out=over)
    over /= SHAPE_MIDDLE
    over += 1
    over *= over
    shape /= over
    return shape, ln_edge


def _linearised(m: Array, r: Array, weights: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Fit a curve to linearise about, the weights, and dlnX/dlnN on it.

    A weight holds the effective variance, Tukey's doubt about what no smooth curve explains, the
    correlation of neighbours, and the cap.
    """
    design = np.stack([np.ones_like(m), m, m * m], axis=1)
    c = fit_linear(design, r, weights / r**2, 1e-3 * median(r)).coefficients
    fitted = np.clip(design @ c, 0.5 * float(r.min()), 2 * float(r.max()))
    sensitivity = np.clip((c[0] - c[2] * m * m) / (m * fitted), -1 / m, 1 / m)
    share = RELATIVE_ERROR**2 / (RELATIVE_ERROR**2 + sensitivity**2 * variance)
    residuals = np.log(r / fitted)
    scale = max(mad(residuals * np.sqrt(share)), RELATIVE_ERROR / 2)
    doubt = np.clip(1 - share * (residuals / (2 * TUKEY * scale)) ** 2, 0, None) ** 2
    w = weights * share * (doubt if doubt.any() else 1.0)
    w = w * (len(w) / persistence(residuals) / weights.sum())
    return fitted, w * min(1.0, TOTAL_WEIGHT / float(w.sum())), sensitivity * m
