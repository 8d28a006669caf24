"""Fits of the law by three estimators, with one type of result that says how far to trust it."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import exp, sqrt

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array
from models.distribution_functions import normal_cdf
from models.numerics import CONFIDENCE, NEGLIGIBLE, median
from models.shared_constants import CERTAIN_Z, FAR_RATIO, SIGNIFICANT_Z, TOLERATED_CHANGE
from models.trust import MAX_ERROR, PeakEvidence, Reason, Trust, judge_peak
from models.usl.classical_fits import least_squares_on_throughput, linearise
from models.usl.law import Usl
from models.usl.peak_posterior import CredibleInterval, LawIntervals, Posterior, posterior_of
from models.usl.peak_posterior_grid import LIVE_PRIOR, N_RANGE, TABLE_PRIOR, PeakPrior
from models.usl.points_and_scatter import LAW_PARAMETERS, Points, scatter_about
from models.usl.residence_curve import find_outlying_points, fit_curve

SUPERLINEAR_SHARE = 0.2
"""Growth is superlinear if the efficiency X/(λN) is clearly above 1 at more than this share of the
points; noise alone raises it above 1 by less."""
REASONS_FOR_MORE_LOAD = {
    Reason.FEW_LEVELS,
    Reason.LOAD_TOO_LOW,
    Reason.WIDE_INTERVAL,
    Reason.NO_PEAK,
    Reason.STILL_GROWING,
    Reason.SEEN_ABOVE_PEAK,
}
"""The reasons that points at higher loads would settle."""


class FitMethod(StrEnum):
    """The estimator that fits the law."""

    BAYES = "bayes"
    LSQ = "lsq"
    LINEARISED = "linearised"


@dataclass(frozen=True)
class UslFit:
    """One fitted law, its peak with its uncertainty, and how far to trust it.

    n is in threads, x in queries/s. n_max and x_max are those of the law; n_max is None without a
    peak. Intervals are 90 % (confidence); None where the method has none.
    """

    method: FitMethod
    law: Usl
    n_max_interval: CredibleInterval | None
    x_max_interval: CredibleInterval | None
    confidence: float
    x_max_median: float | None
    r_squared: float | None
    """R² of the throughput, without outliers; None when all throughputs are equal."""
    points: int
    """The number of points given, outliers included."""
    outliers: tuple[int, ...]
    """Indices of the points that were left out. Only `bayes` leaves any out."""
    trust: Trust
    reasons: tuple[Reason, ...]
    n_observed_max: float
    x_observed_max: float
    x_max_lower_bound: float
    """Of Xmax: the low end of its interval or, if greater, the best throughput of a table."""
    settle_concurrency: float | None
    """The load to measure next, threads; None where a higher load would settle nothing."""
    posterior: Posterior | None = field(default=None, repr=False, compare=False)
    """The posterior of the peak; None where the method has none."""

    @cached_property
    def law_intervals(self) -> LawIntervals | None:
        """The intervals of σ, κ and λ; None without any, or where the law's shape is refuted."""
        return self.posterior.law_intervals() if self.posterior else None

    @property
    def n_max(self) -> float | None:
        """The concurrency at the peak, threads."""
        return self.law.n_max

    @property
    def x_max(self) -> float | None:
        """The peak throughput, queries/s; the asymptote where there is no peak."""
        return self.law.x_max


def fit(n: ArrayLike, x: ArrayLike, method: FitMethod | str = FitMethod.BAYES) -> UslFit:
    """Fit the law to concurrency n (threads) and throughput x (queries/s) of equal length.

    Raises ValueError for fewer than three points, values that are not finite and above 0, and an
    unknown method.
    """
    if FitMethod(method) is FitMethod.BAYES:
        return fit_bayes(n, x, prior=TABLE_PRIOR)
    return {FitMethod.LSQ: fit_lsq, FitMethod.LINEARISED: fit_linearised}[FitMethod(method)](n, x)


def fit_linearised(n: ArrayLike, x: ArrayLike) -> UslFit:
    """Fit by the white paper's parabola, for comparison with other implementations.

    n in threads, x in queries/s, both of shape (points,). It gives the highest loads the most
    weight and takes X(1) as exact; see `linearise` for X(1).
    """
    points = Points.of(n, x)
    return _describe(points, FitMethod.LINEARISED, _without_far_peak(linearise(points).law, points))


def fit_lsq(n: ArrayLike, x: ArrayLike) -> UslFit:
    """Fit by least squares on throughput, as usl4j and R's usl do, with the bounds they lack.

    n in threads, x in queries/s, both of shape (points,).
    """
    points = Points.of(n, x)
    law = least_squares_on_throughput(points)
    return _describe(points, FitMethod.LSQ, _without_far_peak(law, points))


def fit_bayes(
    n: ArrayLike,
    x: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    n_variance: ArrayLike | None = None,
    prior: PeakPrior = LIVE_PRIOR,
) -> UslFit:
    """Fit by the posterior of the peak, the recommended estimator.

    A weight is the number of points that a point represents; n_variance (threads²) is the variance
    of its concurrency, one number or one per point. All weights together count as 60 at most. The
    prior says where the peak is expected, and how the points' weights fall with the distance.
    """
    given = Points.of(n, x, weights)
    posterior, outliers = _posterior_and_outliers(given, n_variance, prior)
    return _describe(given, FitMethod.BAYES, posterior.law, posterior=posterior, outliers=outliers)


def throughput_band(n: ArrayLike, x: ArrayLike, at: Array) -> tuple[Array, Array]:
    """Compute the 90 % band of X(N), queries/s, by a table's posterior; `at` has shape (k,)."""
    return _posterior_and_outliers(Points.of(n, x), None, TABLE_PRIOR)[0].throughput_band(at)


def _posterior_and_outliers(
    given: Points, n_variance: ArrayLike | None, prior: PeakPrior
) -> tuple[Posterior, tuple[int, ...]]:
    """Fit the posterior without the outliers; return it and their indices."""
    variance = None
    if n_variance is not None:
        variance = np.broadcast_to(np.asarray(n_variance, dtype=np.float64), given.n.shape)
        if not (np.isfinite(variance) & (variance >= 0)).all():
            raise ValueError("the variance of the concurrency must be finite and not below 0")
    curve = fit_curve(given, variance)
    outliers = find_outlying_points(given, curve)
    if not outliers:
        return posterior_of(given, curve, prior), ()
    points = given.without(outliers)
    kept = None if variance is None else np.delete(variance, outliers)
    return posterior_of(points, fit_curve(points, kept), prior), outliers


def _without_far_peak(law: Usl, points: Points) -> Usl:
    """Set κ to 0 where it is only rounding: its peak is far beyond every load seen."""
    far = law.n_max is not None and law.n_max > exp(N_RANGE[1]) * float(points.n.max())
    return replace(law, kappa=0.0) if far else law


def _describe(
    given: Points,
    method: FitMethod,
    law: Usl,
    *,
    posterior: Posterior | None = None,
    outliers: tuple[int, ...] = (),
) -> UslFit:
    """Compare a fitted law with its points: quality, trust, and the load to measure next."""
    points = given.without(outliers)
    fitted = law.throughput(points.n)
    interval = posterior.x_max_interval if posterior else None
    judgement = judge_peak(_evidence(given, points, law, np.log(points.x / fitted), posterior))
    n_seen, x_seen = float(points.n.max()), float(points.x.max())
    is_live_window = posterior is not None and not posterior.nearness
    return UslFit(
        method=method,
        law=law,
        n_max_interval=posterior.n_max_interval if posterior else None,
        x_max_interval=interval,
        confidence=CONFIDENCE,
        x_max_median=posterior.x_max_median if posterior else None,
        r_squared=points.r_squared(fitted),
        points=len(given),
        outliers=outliers,
        trust=judgement.trust,
        reasons=judgement.reasons,
        n_observed_max=n_seen,
        x_observed_max=x_seen,
        x_max_lower_bound=max(interval.low if interval else 0.0, 0.0 if is_live_window else x_seen),
        settle_concurrency=_load_to_measure(law, n_seen, posterior, judgement.reasons),
        posterior=posterior,
    )


def _evidence(
    given: Points, kept: Points, law: Usl, errors: Array, posterior: Posterior | None
) -> PeakEvidence:
    """Collect what the trust in the peak depends on.

    `kept` are the points without outliers, errors their ln X − ln X(N).
    """
    median = posterior.x_max_median if posterior else None
    interval = posterior.x_max_interval if posterior else None
    n_seen, x_seen = float(kept.n.max()), float(kept.x.max())
    efficiency = kept.x / (law.lam * kept.n)
    near = kept.nearness(posterior.n_best, posterior.nearness) if posterior else None
    growth, growth_before = kept.growth if posterior else (0.0, 0.0)
    return PeakEvidence(
        levels=1 + int(np.count_nonzero(np.diff(np.sort(kept.n)))),
        n_observed_min=float(kept.n.min()),
        x_observed_max=min(x_seen, float(law.throughput(min(n_seen, law.n_max or n_seen)))),
        n_max=law.n_max,
        x_max=median or law.x_max,
        x_max_interval=interval,
        superlinear=bool(np.mean(efficiency > 1 + TOLERATED_CHANGE) > SUPERLINEAR_SHARE),
        seen_above_peak=_is_seen_above_peak(given, errors, law, interval),
        growth=growth,
        growth_before=growth_before,
        scatter=scatter_about(law, kept, errors, near) if near is not None else None,
    )


def _load_to_measure(
    law: Usl, n_seen: float, posterior: Posterior | None, reasons: tuple[Reason, ...]
) -> float | None:
    """Return the load (threads) whose measurement would settle the reasons; None if none would.

    `n_seen` is the highest concurrency of the points. Where throughput still grew there, the load
    is one far beyond.
    """
    target = posterior.n_max_median if posterior else law.n_max or 2 * n_seen
    if Reason.STILL_GROWING in reasons:
        target = max(target, FAR_RATIO * n_seen)
    needs_more_load = target > n_seen and REASONS_FOR_MORE_LOAD.intersection(reasons)
    return target if needs_more_load else None


def _is_seen_above_peak(
    given: Points, errors: Array, law: Usl, interval: CredibleInterval | None
) -> bool:
    """Return whether a point, or many, are clearly above the interval of the peak.

    errors are those of the points without outliers. Points that refute the peak must not hide in
    the scatter, or in a law that they raise: the noise is estimated from the errors below the
    median, relative to it.
    """
    if interval is None:
        return False
    middle = min(median(errors), 0.0)
    noise, above = _error_from_below(middle, errors), np.log(given.x / interval.high)
    if above.max() > max(CERTAIN_Z * noise, MAX_ERROR):
        return True
    limits = np.log(interval.high / law.throughput(given.n)) + MAX_ERROR - middle
    shares = normal_cdf(-limits / noise)
    expected, variance = float(shares.sum()), float(np.sum(shares * (1 - shares)))
    seen = np.count_nonzero(above > MAX_ERROR)
    return bool(seen - expected >= SIGNIFICANT_Z * (1 + sqrt(variance)))


def _error_from_below(middle: float, errors: Array) -> float:
    """Estimate the relative error of a point from those below the middle, 3 parameters fitted."""
    below = errors[errors < middle] - middle
    spare = max(len(errors) - LAW_PARAMETERS, 1) / len(errors)
    return max(sqrt(float(below @ below) / max(len(below), 1) / spare), NEGLIGIBLE)
