"""The SLA as text: the load at which residence times reach it, or why that is not known."""

from agent.assessment.snapshot import SlaState
from agent.export.fit_report import quantity, short_time
from models.trust import Trust
from models.what_if.predict import Estimate

LIKELY_PROBABILITY = 0.5
"""Probability that the capacity is reached before the SLA, above which the text says so."""


def sla_words(state: SlaState) -> str:
    """Describe the SLA and the load at which it is reached in two or three sentences."""
    now = f"The SLA is a mean residence time of {short_time(state.seconds)}"
    if state.residence_time is not None:
        now += f"; it is {short_time(state.residence_time)} now"
    found = state.found
    if found.throughput is None or found.headroom is None:
        why = found.reason.sentence if found.reason else "nothing is known yet"
        return f"{now}. The load at which it is reached is not yet identifiable: {why}."
    is_capacity_first = (found.capacity_first or 0.0) > LIKELY_PROBABILITY
    reached = "The capacity is reached first, at" if is_capacity_first else "It is reached at"
    left = found.headroom.value
    rest = f"{left:.0%} of that is left" if left > 0 else "the load is above that"
    doubt = "" if state.trust is Trust.TRUSTED else " That is indicative, as the capacity is."
    return f"{now}. {reached} {_throughput_text(found.throughput)}: {rest}.{doubt}"


def _throughput_text(found: Estimate) -> str:
    bounds = f"{quantity(found.lower)} " + (f"to {quantity(found.upper)}" if found.upper else "+")
    return f"{quantity(found.value)} queries/s ({bounds})"
