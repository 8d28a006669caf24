"""The reasons against a capacity, in one table.

Each doubt has a statistic of the evidence, a threshold, and the scenario of a bench or the test
that justifies it. `result.REMARKS` has those that only inform and do not lower the trust;
`REASONS_IF_MEASURED` those that apply to a measured capacity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.capacity.change_points import Regimes
from models.capacity.client_connections import CLIENT_CONNECTIONS
from models.capacity.cost_curve import CostCurve
from models.capacity.cost_drift import cost_drift, latest_cost_change
from models.capacity.cpu_frequency_check import clock_rise
from models.capacity.estimate import Estimate
from models.capacity.fluctuation_between_periods import cost_fluctuation, others_fluctuation
from models.capacity.goodness_of_fit import Finding, error_at_highest_loads
from models.capacity.observations import Observations
from models.capacity.outliers import Outliers
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import USL
from models.capacity.result import CapacityReason as Why
from models.numerics import quantile, quantiles
from models.shared_constants import (
    EPISODE_SHARE,
    HIGH_QUANTILE,
    LATEST_INTERVALS,
    MAJORITY,
    MIN_LOAD_RATIO,
    NEAR_SHARE,
    SEEN_QUANTILE,
    TOLERATED_CHANGE,
)
from models.trust import MIN_LOAD, TRUSTED_RATIO, Reason, Trust
from models.usl.fit import UslFit


@dataclass(frozen=True, eq=False)
class CapacityEvidence:
    """All that a capacity was estimated from, and the estimate."""

    seen: Observations = field(repr=False)
    """All intervals; concurrency is not known where other programs filled a resource."""
    current: Observations = field(repr=False)
    """Those of the present workload."""
    kept: Observations = field(repr=False)
    """Those without outliers, and below a peak that was passed."""
    regimes: Regimes
    outliers: Outliers
    nearest: ResourceLimit | None
    """The lowest limit that contention may be expected beside."""
    lowest: ResourceLimit | None
    """The lowest limit of all."""
    lowest_lower_bound: ResourceLimit | None
    """The limit whose lower bound is the lowest."""
    law: UslFit | None
    finding: Finding | None
    """Why there is no law, or what is wrong with it."""
    plateau: float | None
    """The throughput (queries/s) that more statements did not raise; None: it still grew."""
    estimate: Estimate

    @cached_property
    def cost(self) -> CostCurve | None:
        """The cost of a query in the nearest limit's resource; None without one."""
        return CostCurve.of(self.kept, self.nearest.resource) if self.nearest else None


class Doubt(NamedTuple):
    """One thing that may speak against a capacity."""

    reason: Why
    statistic: Callable[[CapacityEvidence], float]
    threshold: float
    """The threshold above which the statistic counts: `MAJORITY` for one that is 0 or 1."""
    justified_by: str
    """A scenario of bench/capacity.py, or a test."""


MAX_FLUCTUATION = 0.07
"""The greatest deviation of ln of a cost, or of others' use, between periods: a period of one in
thirty is then more than 15 % off the mean."""
MIN_NEAR_INTERVALS = LATEST_INTERVALS
"""The least number of intervals with loads near a trusted capacity. One that is 15 % too high is
then trusted from 92 % of the truth on: of simulated servers seen up to 90 % of it, those that were
trusted and that far off had served 70 % of the estimate."""


def doubts(evidence: CapacityEvidence) -> set[Why]:
    """Find all reasons whose statistic exceeds its threshold."""
    possible = DOUBTS_IF_MEASURED if evidence.estimate.observed else DOUBTS
    return {doubt.reason for doubt in possible if doubt.statistic(evidence) > doubt.threshold}


def _cost_statistic(statistic: Callable[[CostCurve], float]) -> Callable[[CapacityEvidence], float]:
    """Apply a statistic to the cost in the nearest limit's resource; 0 without one."""

    def value(evidence: CapacityEvidence) -> float:
        return 0.0 if evidence.cost is None else abs(statistic(evidence.cost))

    return value


def _latest_change_of_cost(evidence: CapacityEvidence) -> float:
    if evidence.nearest is None or evidence.cost is None:
        return 0.0
    latest = evidence.cost
    if evidence.current is not evidence.kept:  # some intervals are outliers
        latest = CostCurve.of(evidence.current, evidence.nearest.resource)
    return abs(latest_cost_change(evidence.cost, latest))


def _error_at_high_loads(evidence: CapacityEvidence) -> float:
    limit = evidence.nearest
    return 0.0 if limit is None else abs(error_at_highest_loads(evidence.kept, limit))


def _served_above_peak(evidence: CapacityEvidence) -> float:
    """Compute by which share a tenth of the high loads served more than a peak's upper bound."""
    estimate, x = evidence.estimate, evidence.current.throughput
    if not estimate.observed or estimate.value is None or estimate.upper is None:
        return 0.0
    return quantile(x[x >= NEAR_SHARE * estimate.value], HIGH_QUANTILE) / estimate.upper - 1


def _fluctuation_of_others(evidence: CapacityEvidence) -> float:
    limit = evidence.lowest_lower_bound
    return 0.0 if limit is None else others_fluctuation(evidence.seen, limit.resource)


def _possible_clock_rise(evidence: CapacityEvidence) -> float:
    limit = evidence.nearest
    return 0.0 if limit is None else clock_rise(evidence.kept, limit.resource) - 1


def _share_of_latest_left_out(evidence: CapacityEvidence) -> float:
    return 1 - float(np.mean(evidence.regimes.current[-LATEST_INTERVALS:]))


def _is_heavier_mix_present(evidence: CapacityEvidence) -> float:
    """Return whether a heavier mix fills a resource now: nothing was left out for it."""
    clusters = evidence.regimes.clusters
    return float(clusters is not None and not clusters.share)


def _is_recent_cost_different(evidence: CapacityEvidence) -> float:
    return float(evidence.outliers.recent_cost_differs)


def _further_fall(evidence: CapacityEvidence) -> float:
    return 0.0 if evidence.nearest is None else evidence.nearest.further_fall


def _has_two_workloads(evidence: CapacityEvidence) -> float:
    return float(evidence.regimes.clusters is not None)


def _has_mix_changed(evidence: CapacityEvidence) -> float:
    return float(evidence.regimes.change is not None)


def _has_plateau(evidence: CapacityEvidence) -> float:
    return float(evidence.plateau is not None)


def _probability_of_law(evidence: CapacityEvidence) -> float:
    """Compute the probability that the law sets the capacity; 1 where there is only a bound."""
    estimate = evidence.estimate
    return 1.0 if estimate.value is None else estimate.shares.get(USL, 0.0)


def _probability_of_wrong_law(evidence: CapacityEvidence) -> float:
    law, finding = evidence.law, evidence.finding
    is_wrong = finding is not None and not finding.refuses
    if evidence.estimate.value is None and law is not None and evidence.nearest is None:
        is_wrong |= Reason.SEEN_ABOVE_PEAK in law.reasons
    return _probability_of_law(evidence) * is_wrong


def _served_above_law_before_change(evidence: CapacityEvidence) -> float:
    """Compute the share of intervals before a change that served more than the law allows."""
    change, estimate = evidence.regimes.change, evidence.estimate
    if change is None or estimate.limit != USL or estimate.upper is None:
        return 0.0
    most = estimate.upper * max(change.ratio, 1.0)
    x = evidence.seen.throughput
    return np.count_nonzero(x[~evidence.regimes.current] > most) / len(x)


def _is_law_alone_uncertain(evidence: CapacityEvidence) -> float:
    if evidence.estimate.value is None or evidence.nearest is not None:
        return 0.0
    return float(evidence.law is not None and evidence.law.trust is not Trust.TRUSTED)


def _probability_of_uncertain_law(evidence: CapacityEvidence) -> float:
    is_sure = evidence.law is not None and evidence.law.trust is Trust.TRUSTED
    if is_sure or evidence.nearest is None:
        return 0.0
    return evidence.estimate.shares.get(USL, 0.0)


def _low_to_high_load(evidence: CapacityEvidence) -> float:
    low, high = quantiles(evidence.kept.throughput, (1 - SEEN_QUANTILE, SEEN_QUANTILE))
    return float(low / high)


def _capacity_to_seen_load(evidence: CapacityEvidence) -> float:
    return (evidence.estimate.value or 0.0) / evidence.estimate.x_seen


def _missing_high_loads(evidence: CapacityEvidence) -> float:
    value = evidence.estimate.value
    if value is None or _capacity_to_seen_load(evidence) > 1 / MIN_LOAD:
        return 0.0
    return MIN_NEAR_INTERVALS - float(
        np.count_nonzero(evidence.kept.throughput >= NEAR_SHARE * value)
    )


def _interval_ratio(evidence: CapacityEvidence) -> float:
    return 0.0 if evidence.estimate.value is None else evidence.estimate.ratio


def _counts_waits_at_lowest(evidence: CapacityEvidence) -> float:
    lowest = evidence.lowest
    return float(lowest is not None and evidence.kept.resource(lowest.resource).counts_waits)


def _is_pool_lowest(evidence: CapacityEvidence) -> float:
    lowest = evidence.lowest
    return float(lowest is not None and lowest.resource == CLIENT_CONNECTIONS)


def _is_ceiling_assumed(evidence: CapacityEvidence) -> float:
    lowest = evidence.lowest
    return float(lowest is not None and evidence.kept.resource(lowest.resource).is_ceiling_assumed)


def _is_law_refused(evidence: CapacityEvidence) -> float:
    return float(evidence.finding is not None and evidence.finding.refuses)


def _share_of_disturbed(evidence: CapacityEvidence) -> float:
    return float(np.mean(evidence.kept.disturbed_by_others))


DOUBTS = (
    Doubt(Why.NO_LIMIT_SEEN, lambda e: float(e.estimate.value is None), MAJORITY, "Amdahl, κ ≈ 0"),
    Doubt(
        Why.MODEL_DOES_NOT_FIT,
        _error_at_high_loads,
        TOLERATED_CHANGE,
        "test_the_highest_loads_may_contradict_a_limit",
    ),
    Doubt(Why.RECENT_COST_DIFFERS, _is_recent_cost_different, MAJORITY, "mix changed"),
    Doubt(Why.RECENT_COST_DIFFERS, _share_of_latest_left_out, MAJORITY, "night jobs"),
    Doubt(
        Why.RECENT_COST_DIFFERS,
        _is_heavier_mix_present,
        MAJORITY,
        "test_reports_that_run_now_leave_no_present_capacity",
    ),
    Doubt(
        Why.RECENT_COST_DIFFERS,
        _latest_change_of_cost,
        TOLERATED_CHANGE,
        "test_a_recent_rise_of_costs_takes_trust_away_at_once",
    ),
    Doubt(
        Why.COST_FLUCTUATES,
        _cost_statistic(cost_drift),
        TOLERATED_CHANGE,
        "test_a_drifting_mix_is_reported_and_never_trusted_and_far_off",
    ),
    Doubt(
        Why.COST_FLUCTUATES,
        _cost_statistic(cost_fluctuation),
        MAX_FLUCTUATION,
        "test_a_fluctuating_cost_takes_trust_away",
    ),
    Doubt(
        Why.COST_FLUCTUATES,
        _served_above_peak,
        TOLERATED_CHANGE,
        "test_a_peak_below_what_was_served_is_not_trusted",
    ),
    Doubt(
        Why.OTHERS_FLUCTUATE,
        _fluctuation_of_others,
        MAX_FLUCTUATION,
        "test_neighbours_that_come_and_go_take_trust_away",
    ),
    Doubt(
        Why.CLOCK_LOW,
        _possible_clock_rise,
        TOLERATED_CHANGE,
        "test_a_clock_that_is_lowered_at_low_loads_takes_trust_away",
    ),
    Doubt(Why.DEMAND_FALLS, _further_fall, TOLERATED_CHANGE, "one processor, wake-ups"),
    Doubt(Why.THROUGHPUT_PLATEAU, _has_plateau, MAJORITY, "queueing, and a lock"),
    Doubt(
        Why.LAW_DOES_NOT_FIT,
        _probability_of_wrong_law,
        MAJORITY,
        "law, plateau at the cores",
    ),
    Doubt(
        Why.LAW_DOES_NOT_FIT,
        _served_above_law_before_change,
        EPISODE_SHARE,
        "test_contention_that_an_older_mix_contradicts_is_not_trusted",
    ),
    Doubt(Why.LAW_UNCERTAIN, _is_law_alone_uncertain, MAJORITY, "law, full far beyond"),
    Doubt(Why.ONE_LOAD, _low_to_high_load, 1 / MIN_LOAD_RATIO, "hour only"),
    Doubt(Why.LOAD_TOO_LOW, _capacity_to_seen_load, 1 / MIN_LOAD, "hour only"),
    Doubt(
        Why.FEW_HIGH_LOADS,
        _missing_high_loads,
        MAJORITY,
        "test_a_short_burst_of_load_is_trusted_for_nothing",
    ),
    Doubt(Why.WIDE_INTERVAL, _interval_ratio, TRUSTED_RATIO, "noise 6 %"),
    Doubt(
        Why.WAITS_COUNTED,
        _counts_waits_at_lowest,
        MAJORITY,
        "test_statements_that_wait_elsewhere_fill_no_innodb",
    ),
    Doubt(Why.POOL_MAY_GROW, _is_pool_lowest, MAJORITY, "test_a_pool_that_may_grow_is_not_trusted"),
    Doubt(
        Why.CPU_ASSUMED, _is_ceiling_assumed, MAJORITY, "test_an_assumed_share_leaves_an_indication"
    ),
    Doubt(Why.CONTENTION_UNKNOWN, _probability_of_uncertain_law, TOLERATED_CHANGE, "law, convoy"),
    Doubt(Why.CONCURRENCY_UNKNOWN, _is_law_refused, MAJORITY, "few processors, no delay"),
    Doubt(Why.NO_RESOURCE_LIMIT, lambda e: float(e.nearest is None), MAJORITY, "Amdahl, κ ≈ 0"),
    Doubt(
        Why.OTHERS_INTERFERE,
        _share_of_disturbed,
        EPISODE_SHARE,
        "test_hardly_any_moment_has_a_trusted_capacity_that_is_far_off",
    ),
    Doubt(Why.MIX_CHANGED, _has_mix_changed, MAJORITY, "mix changed"),
    Doubt(Why.TWO_WORKLOADS, _has_two_workloads, MAJORITY, "night jobs"),
)
REASONS_IF_MEASURED = {
    Why.RECENT_COST_DIFFERS,
    Why.COST_FLUCTUATES,
    Why.OTHERS_FLUCTUATE,
    Why.WIDE_INTERVAL,
    Why.TWO_WORKLOADS,
    Why.MIX_CHANGED,
    Why.OTHERS_INTERFERE,
    Why.CONCURRENCY_UNKNOWN,
}
"""Reasons that apply to a measured capacity; all others speak against an extrapolation."""
DOUBTS_IF_MEASURED = tuple(doubt for doubt in DOUBTS if doubt.reason in REASONS_IF_MEASURED)
