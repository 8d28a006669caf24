"""The headroom up to an SLA: the load at which it is reached, or the reason why it is not known."""

from dataclasses import dataclass

import numpy as np

from models.distribution_functions import NORMAL_95
from models.reason_enum import ReasonEnum
from models.what_if.current_state import CurrentLoad
from models.what_if.predicted_value import PredictedValue


class SlaReason(ReasonEnum):
    """Why the load that reaches the SLA is not known."""

    NO_LOAD = "no_load", "today's residence time is not known"
    NO_CAPACITY = "no_capacity", "the capacity is not known"
    CONTRADICTED = "contradicted", "the measurements contradict the capacity's model"
    THROUGHPUT_PLATEAU = (
        "throughput_plateau",
        "throughput stopped growing though no resource is full",
    )
    PAST_PEAK = (
        "past_peak",
        "the server is past its peak, where throughput does not show the load",
    )
    UNEXPLAINED = (
        "unexplained",
        "most of a query's time is not explained by a resource, and no law predicts how it grows",
    )
    NO_GROWTH = "no_growth", "neither the law nor a resource predicts how residence times grow"
    NOT_IDENTIFIABLE = (
        "not_identifiable",
        "the residence time at a lower load is not known",
    )
    NO_HISTOGRAMS = "no_histograms", "the server has no histograms per digest, or none were read"
    FEW_CALLS = "few_calls", "too few statements of the class were seen in the last minutes"
    NEVER_MET = "never_met", "even at a fiftieth of the load the residence time is above the SLA"


@dataclass(frozen=True)
class SlaHeadroom:
    """The load at which the mean residence time reaches the SLA; None where it is not known."""

    throughput: PredictedValue | None = None
    """Queries/s; at most the capacity."""
    concurrency: PredictedValue | None = None
    """Threads, throughput times the SLA; None where the capacity is likely reached before."""
    ratio: PredictedValue | None = None
    """1 − X/throughput; where the SLA is broken now, at most 0, or 1 − R/SLA if the throughput is
    not known. Past the peak it is the capacity's own."""
    capacity_first: float | None = None
    """The probability that the capacity is reached before the SLA is broken."""
    at_capacity: PredictedValue | None = None
    """R at the capacity, s, from the same draws; None where it is not known or unbounded."""
    reason: SlaReason | None = None


def unknown_headroom(reason: SlaReason, load: CurrentLoad | None, sla: float) -> SlaHeadroom:
    """Return the reason, with the headroom 1 − R/SLA, below 0, where the SLA is broken now."""
    if load is None or load.residence_time <= sla:
        return SlaHeadroom(reason=reason)
    worse = np.exp(NORMAL_95 * load.scatter * np.array([1.0, 0.0, -1.0]))
    low, middle, high = 1 - worse * load.residence_time / sla
    return SlaHeadroom(ratio=capped_at_zero(PredictedValue(middle, low, high)), reason=reason)


def past_peak_headroom(ratio: float) -> SlaHeadroom:
    """Return the capacity's headroom, at most 0: past the peak none is left up to the SLA."""
    return SlaHeadroom(ratio=PredictedValue(ratio, ratio, ratio), reason=SlaReason.PAST_PEAK)


def capped_at_zero(found: PredictedValue) -> PredictedValue:
    """Limit an estimate to at most 0."""
    upper = 0.0 if found.upper is None else min(found.upper, 0.0)
    return PredictedValue(min(found.value, 0.0), min(found.lower, 0.0), upper)
