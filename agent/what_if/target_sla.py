"""A target's headroom up to its SLA, from a snapshot."""

from agent.assessment.snapshot import SlaState, Snapshot
from agent.what_if.current_state import current_state_of
from models.capacity.result import CapacityReason
from models.capacity.saturation_probability import is_contradicted
from models.trust import Trust
from models.what_if.current_state import CurrentState
from models.what_if.sla_headroom import sla_headroom
from models.what_if.sla_result import SlaHeadroom, SlaReason, past_peak_headroom, unknown_headroom

DOUBTS = {
    CapacityReason.THROUGHPUT_PLATEAU: SlaReason.THROUGHPUT_PLATEAU,
    CapacityReason.WAITS_COUNTED: SlaReason.THROUGHPUT_PLATEAU,
}
"""Doubts of the capacity with which no residence times are predicted."""


def sla_of(snapshot: Snapshot, seconds: float, now: float) -> SlaState:
    """Find the load at which the mean residence time reaches the SLA, known at `now` (Unix s)."""
    today = current_state_of(snapshot, now)
    capacity = snapshot.capacity(now)
    found = headroom_without_prediction(snapshot, today, seconds, now)
    found = found or sla_headroom(today, seconds)
    is_known = found.throughput is not None and capacity is not None
    return SlaState(
        at=now,
        seconds=seconds,
        residence_time=today.load.residence_time if today.load else None,
        headroom=found,
        at_capacity=found.at_capacity,
        trust=capacity.trust if is_known and capacity is not None else Trust.NOT_IDENTIFIABLE,
    )


def headroom_without_prediction(
    snapshot: Snapshot, today: CurrentState, sla: float, now: float
) -> SlaHeadroom | None:
    """Return why nothing can be predicted, or None: a prediction needs a load below the peak."""
    capacity, left = snapshot.capacity(now), snapshot.headroom(now)
    if today.load is None or capacity is None or capacity.value is None:
        return None
    if is_contradicted(capacity):
        return unknown_headroom(SlaReason.CONTRADICTED, today.load, sla)
    if left is not None and left.overloaded:
        return past_peak_headroom(left.ratio)
    doubts = [DOUBTS[reason] for reason in capacity.reasons if reason in DOUBTS]
    return unknown_headroom(doubts[0], today.load, sla) if doubts else None
