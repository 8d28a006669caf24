"""The peak at which contention ends the growth of throughput, given a resource limit.

Far below the peak the points do not show where it is, and the prior decides. Fitted alone, the law
can only use a prior relative to the loads seen. With a known limit a better one is available:
contention ends the growth of a server near its resource limits, or never. So the prior of the peak
is centred at the limit, and the points move it from there.

`residence_likelihood` compares several forms of the residence time by how well they describe the
points.

Where few statements at once fill the resource, they rarely wait for each other elsewhere, and
bursts within an interval move R and N together: points then show less of where the peak is. The
same 5 % remain everywhere for residence times that do not show it.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from models.arrays import Array, Mask
from models.capacity.goodness_of_fit import MergedPoints
from models.capacity.plateau import top_and_its_concurrency
from models.capacity.residence_likelihood import PeakGrid, ResidenceModels
from models.capacity.resource_and_limit import MAX_LIMIT_RATIO
from models.distribution_functions import normal_cdf
from models.numerics import QUANTILES, TABLE_SIZE
from models.shared_constants import (
    CLEAR_RATIO,
    FALSE_SIGN_PROBABILITY,
    FAR_RATIO,
    MAJORITY,
    MIN_MEETING_CONCURRENCY,
    MIN_POINTS,
    POSSIBLE,
    UNLIKELY,
)
from models.trust import MAX_ERROR

PEAK_PRIOR = (0.25, 0.35)
"""ln(peak / limit), median and scale of Student's distribution with two degrees of freedom: most
servers are built so that a resource is their limit, and contention ends the growth of a few of them
far below it."""
ABRUPT_PRIOR = UNLIKELY
"""The probability of a contention that the law cannot foresee, since it sets in abruptly: a lock
that is free below the peak and a convoy above."""
UNCOUNTED_LOG_PRIOR = POSSIBLE
"""The probability that commits share the writes of the log where these are not counted: in eight of
28 recorded loads they do. Of 220 intervals without that count 193 hold the peak; with a probability
of 0 it is 191, and the mean error below 90 % of the load is 10.3 instead of 9.7 %."""
MIN_CONTENDING = 6.0
"""The concurrency from which on statements contend: where so many fill the limit, residence times
begin to show it, and do so fully at twice as many."""


@dataclass(frozen=True)
class NearestLimit:
    """The nearest resource limit."""

    x: float
    """Queries/s."""
    n: float | None
    """The number of statements at once that fill it while none waits; None: not known."""
    log_shared: float = 0.0
    """The probability that its demand falls as more commits share the writes of the log: they then
    wait for the next write, which all share, and that is no contention."""
    waits_elsewhere: bool = False
    """Whether statements are known to wait for something other than this resource: a lock."""
    load_ignored: bool = False
    """Whether residence times do not follow short changes of the load."""


@dataclass(frozen=True, eq=False)
class ContentionPeak:
    """The distribution of contention's peak: P(peak ≤ x) as a table over ln throughput."""

    grid: Array = field(repr=False)
    cdf: Array = field(repr=False)
    plateau: float | None = None
    """The throughput (queries/s) of an observed plateau; None: the throughput still grew."""

    def survival(self, ln_x: Array) -> Array:
        """Compute P(peak > x) at each ln throughput (queries/s), of any shape."""
        above: Array = 1 - np.interp(ln_x, self.grid, self.cdf)
        if self.plateau is None:
            return above
        beyond = normal_cdf((ln_x - np.log(self.plateau)) / MAX_ERROR)
        return above * (1 - (1 - FALSE_SIGN_PROBABILITY) * beyond)


def find_peak(points: MergedPoints, resource_limit: NearestLimit, x_seen: float) -> ContentionPeak:
    """Compute the distribution of the peak; X in queries/s, points in the order of time.

    Where many statements complete less than few, either the peak was passed, or they wait for a
    lock that has nothing to do with the load: then only the other points show where the peak is.
    """
    points = _with_known_use(points)
    peak, piled = _peak_distribution(points, resource_limit, x_seen), _is_piled_up(points)
    if np.count_nonzero(piled) < MIN_POINTS:
        return peak
    rest = MergedPoints(*(column[~piled] for column in points))
    without = _peak_distribution(rest, resource_limit, x_seen)
    mixed = (1 - FALSE_SIGN_PROBABILITY) * peak.cdf + FALSE_SIGN_PROBABILITY * without.cdf
    return replace(peak, cdf=mixed)


def _with_known_use(points: MergedPoints) -> MergedPoints:
    """Leave out points where the use of the limit's resource is not known, if it is of most."""
    known = np.isfinite(points.busy)
    if known.all() or np.mean(known) <= MAJORITY:
        return points
    return MergedPoints(*(column[known] for column in points))


def _is_piled_up(points: MergedPoints) -> Mask:
    """Mark where more statements than at the top complete less, shape (points,)."""
    if len(points.n) < 2 * MIN_POINTS:
        return np.zeros(len(points.n), dtype=np.bool_)
    top, first = top_and_its_concurrency(points.n, points.x)
    piled: Mask = (points.n >= FAR_RATIO * first) & (points.x < top)
    return piled


def _peak_distribution(
    points: MergedPoints, resource_limit: NearestLimit, x_seen: float
) -> ContentionPeak:
    """Compute the distribution of the peak from all of these points.

    It is sought from clearly below the highest throughput seen to as far above the higher of it and
    the limit as a limit is sought.
    """
    top = max(np.log(resource_limit.x), np.log(x_seen)) + np.log(MAX_LIMIT_RATIO)
    ln_peak = np.linspace(np.log(x_seen / CLEAR_RATIO), top, TABLE_SIZE)
    prior = _prior(ln_peak - np.log(resource_limit.x), resource_limit.n)
    beyond = ln_peak - np.log(x_seen)
    unseen = prior * (beyond >= 0)
    if len(points.n) < MIN_POINTS:
        return ContentionPeak(ln_peak, _cdf(unseen))
    abrupt = _cdf(unseen * np.exp(-beyond / PEAK_PRIOR[0]))
    seen = ResidenceModels.of(points)
    peaks = PeakGrid(ln_peak - np.log(seen.x_scale), prior)
    by_n = 0.0
    if resource_limit.n is not None:
        by_n = float(np.clip(2 - resource_limit.n / MIN_CONTENDING, 0, 1)) * seen.ln_error_ratio
    ln_p = seen.likelihood_by_law(peaks) + by_n
    if np.isfinite(points.busy).all():
        removed = seen.remove_limit_queues()
        by_law = seen.likelihood_by_law_and_limit(peaks, removed) + by_n
        ln_p = np.logaddexp.reduce(
            [ln_p, by_law, seen.likelihood_by_lock_and_limit(peaks, removed)]
        )
    if _may_mislead(resource_limit):
        ln_p = np.logaddexp(ln_p, ln_p.max() + np.log(QUANTILES[0]))
    mistaken = max(QUANTILES[0], resource_limit.log_shared)
    if resource_limit.load_ignored:
        mistaken = max(mistaken, 1 - FALSE_SIGN_PROBABILITY)
    shown = _cdf(prior * np.exp(ln_p - ln_p.max()))
    posterior = (1 - mistaken) * shown + mistaken * _cdf(unseen)
    return ContentionPeak(ln_peak, 1 - (1 - posterior) * (1 - ABRUPT_PRIOR * abrupt))


def _prior(ln_ratio: Array, n_limit: float | None) -> Array:
    """Compute the prior density at ln(peak/limit): the fewer statements fill it, the farther."""
    median, scale = PEAK_PRIOR
    n = MIN_MEETING_CONCURRENCY if n_limit is None else min(n_limit, MIN_MEETING_CONCURRENCY)
    off = ln_ratio - median - np.log(MIN_MEETING_CONCURRENCY / n)
    prior: Array = (1 + (off / scale) ** 2 / 2) ** -1.5
    return prior


def _may_mislead(resource_limit: NearestLimit) -> bool:
    """Return whether queues at the limit's resource may look like another limit.

    They do where few statements fill it: bursts within an interval then move R and N together. They
    do not where statements were seen to wait elsewhere.
    """
    few = resource_limit.n is not None and resource_limit.n < 2 * MIN_CONTENDING
    return few and not resource_limit.waits_elsewhere


def _cdf(p: Array) -> Array:
    """Compute the distribution function at the middles of even steps of these probabilities."""
    cdf: Array = (np.cumsum(p) - p / 2) / p.sum()
    return cdf
