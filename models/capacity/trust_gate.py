"""How sure a capacity is: trusted, indicative or not identifiable, and why."""

from dataclasses import replace

import numpy as np

from models.capacity.change_points import Regimes
from models.capacity.distribution import Distribution
from models.capacity.goodness_of_fit import Check, Finding
from models.capacity.headroom import peak_upper
from models.capacity.observed_peak import ObservedPeak
from models.capacity.outliers import MAX_SHARE
from models.capacity.result import INFORMATION, USL, Capacity, CapacityReason
from models.robust import NORMAL_95
from models.trust import Reason, Trust
from models.usl.fit import UslFit
from models.usl.law import Array
from models.usl.posterior import Interval

TRUSTED_RATIO, INDICATIVE_RATIO = 1.42, 2.0
"""The 95 % quantile of the capacity over its 5 % quantile must be below."""
MIN_LOAD = 0.7
"""The least share of the capacity that must have been seen for a trusted one."""
MIN_NEAR = 12
"""So many intervals must have come so near: one burst of load tells little of what ends it."""
MORE = 1.25
"""By so much more than the capacity's upper bound must have been served to contradict it."""
SETTLING_LOAD = 0.75
"""The share of the capacity from which on most of them are trusted, in simulation."""
ENOUGH_THREADS = 6.0
"""Where concurrency is too low for the law, the load at which it would be this is to be seen."""


def judged(
    quantiles: tuple[float, float, float],
    shares: dict[str, float],
    x_seen: float,
    found: set[CapacityReason],
    distribution: Distribution | None = None,
) -> Capacity:
    """Tell the 5, 50 and 95 % quantiles with the trust that they deserve, given what was found.

    Without a distribution they are all that is known of it.
    """
    low, middle, high = quantiles
    ratio = high / low
    trust = Trust.NOT_IDENTIFIABLE
    if ratio < INDICATIVE_RATIO:
        trust = Trust.INDICATIVE
    if ratio >= TRUSTED_RATIO:
        found = found | {CapacityReason.WIDE_INTERVAL}
    if x_seen < MIN_LOAD * middle:
        found = found | {CapacityReason.LOAD_TOO_LOW}
    if shares.get(USL, 0.0) <= 0.25:
        found = found - {CapacityReason.LAW_DOES_NOT_FIT}
    if not found - INFORMATION:
        trust = Trust.TRUSTED
        found = found - {CapacityReason.CONTENTION_UNKNOWN}
    return Capacity(
        value=middle,
        lower=low,
        upper=high if np.isfinite(high) else None,
        limit=max(shares, key=lambda name: shares[name]),
        shares=shares,
        trust=trust,
        reasons=tuple(reason for reason in CapacityReason if reason in found),
        x_seen=x_seen,
        settle_throughput=_settling(trust, x_seen, middle),
        distribution=distribution or Distribution.of_quantiles(low, middle, high),
    )


def if_often_near(answer: Capacity, throughput: Array) -> Capacity:
    """The same, not trusted where the load came near the capacity in a few intervals only."""
    if answer.value is None or answer.trust is not Trust.TRUSTED:
        return answer
    if np.count_nonzero(throughput >= MIN_LOAD * answer.value) >= MIN_NEAR:
        return answer
    return _without_trust(answer, CapacityReason.FEW_HIGH_LOADS)


def unless_more_was_served(answer: Capacity, throughput: Array, regimes: Regimes) -> Capacity:
    """The same, not trusted where contention would forbid what was served before the mix changed.

    However much dearer a query has become: queries that took longer for a while, as after a
    restart, look like contention that begins where the load was then.
    """
    change = regimes.change
    if answer.trust is not Trust.TRUSTED or answer.limit != USL or change is None:
        return answer
    most = (answer.upper or np.inf) * max(change.ratio, 1.0) * MORE
    contradict = np.count_nonzero(throughput[~regimes.current] > most)
    if contradict <= MAX_SHARE * len(throughput):
        return answer
    return _without_trust(answer, CapacityReason.LAW_DOES_NOT_FIT)


def _without_trust(answer: Capacity, reason: CapacityReason) -> Capacity:
    found = {*answer.reasons, reason}
    return replace(
        answer,
        trust=Trust.INDICATIVE,
        reasons=tuple(reason for reason in CapacityReason if reason in found),
        settle_throughput=_settling(Trust.INDICATIVE, answer.x_seen, answer.value or 0.0),
    )


def _settling(trust: Trust, x_seen: float, value: float) -> float | None:
    """Find the load that would settle it: the share that mostly does, or half of what is left."""
    if trust is Trust.TRUSTED:
        return None
    return max(SETTLING_LOAD * value, (x_seen + value) / 2) if value > x_seen else None


def by_law_alone(
    law: UslFit | None, finding: Finding | None, x_seen: float, context: set[CapacityReason]
) -> Capacity:
    """Without a limit only the law speaks; where it is not identifiable, for a lower bound only."""
    context = context | {CapacityReason.NO_RESOURCE_LIMIT}
    if finding is not None and finding.check is Check.LOW_CONCURRENCY:
        enough = x_seen * ENOUGH_THREADS / finding.value  # below contention N grows with X
        return _lower_bound(x_seen, x_seen, context, enough)
    if law is None or law.x_max is None or law.x_max_interval is None or law.x_max_median is None:
        return _lower_bound(x_seen, x_seen, context)
    interval: Interval = law.x_max_interval
    if Reason.SEEN_ABOVE_PEAK in law.reasons:
        return _lower_bound(x_seen, x_seen, context | {CapacityReason.LAW_DOES_NOT_FIT})
    if law.trust is Trust.NOT_IDENTIFIABLE:
        settle = law.settle_concurrency
        load = float(law.law.throughput(settle)) if settle else None
        return _lower_bound(max(min(interval.low, law.x_max), x_seen), x_seen, context, load)
    if law.trust is not Trust.TRUSTED:
        context = context | {CapacityReason.LAW_NOT_SURE}
    return judged((interval.low, law.x_max, interval.high), {USL: 1.0}, x_seen, context)


MEASURED_ERROR = 0.025
"""The least standard deviation of ln of a capacity that was measured."""
EXTRAPOLATION = set(CapacityReason) - {
    CapacityReason.LATEST_DIFFER,
    CapacityReason.COST_FLUCTUATES,
    CapacityReason.OTHERS_FLUCTUATE,
    CapacityReason.TWO_WORKLOADS,
    CapacityReason.MIX_CHANGED,
    CapacityReason.OTHERS_INTERFERE,
    CapacityReason.CONCURRENCY_UNKNOWN,
}
"""Reasons against an extrapolation, which say nothing of a capacity that was measured."""


def measured(peak: ObservedPeak, x_seen: float, context: set[CapacityReason]) -> Capacity:
    """Take the capacity from the throughput at a peak that was passed."""
    spread = float(np.exp(NORMAL_95 * np.hypot(peak.error, MEASURED_ERROR)))
    x, found = peak.throughput, context - EXTRAPOLATION
    shares = {peak.resource: 1.0}
    return judged((x / spread, x, x * spread), shares, max(x_seen, x), found)


def _lower_bound(
    bound: float, x_seen: float, context: set[CapacityReason], settle: float | None = None
) -> Capacity:
    found = context | {CapacityReason.NO_LIMIT_SEEN}
    return Capacity(
        value=None,
        lower=bound,
        upper=None,
        limit=None,
        shares={},
        trust=Trust.NOT_IDENTIFIABLE,
        reasons=tuple(reason for reason in CapacityReason if reason in found),
        x_seen=x_seen,
        settle_throughput=settle if settle and settle > x_seen else None,
    )


def nothing() -> Capacity:
    """Tell that nothing was seen."""
    return Capacity(
        None,
        None,
        None,
        None,
        {},
        Trust.NOT_IDENTIFIABLE,
        (CapacityReason.NO_LIMIT_SEEN,),
        0.0,
        None,
    )


def with_concurrency(answer: Capacity, met: ObservedPeak | None, law: UslFit | None) -> Capacity:
    """Add the concurrency at the capacity: as it was observed, or as a trusted law has it."""
    if met is not None:
        at_peak, upper = met.concurrency, met.concurrency_upper
        return replace(answer, concurrency=at_peak, concurrency_upper=upper)
    if law is None or law.trust is not Trust.TRUSTED or law.n_max is None or answer.value is None:
        return answer
    at_peak = float(law.law.concurrency_at_throughput(answer.value))
    at_peak = at_peak if np.isfinite(at_peak) else law.n_max
    return replace(answer, concurrency=at_peak, concurrency_upper=peak_upper(law))


def with_doubts(law: UslFit | None, finding: Finding | None) -> UslFit | None:
    """The same law, not trusted where the checks find that its shape is wrong."""
    if law is None or finding is None:
        return law
    doubt = Reason.SUPERLINEAR if finding.check is Check.SUPERLINEAR else Reason.RESIDUAL_PATTERN
    reasons = tuple(reason for reason in Reason if reason in {*law.reasons, doubt})
    trust = Trust.INDICATIVE if law.trust is Trust.TRUSTED else law.trust
    return replace(law, trust=trust, reasons=reasons)
