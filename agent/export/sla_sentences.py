"""The SLA in words: the load at which residence times reach it, or why that is not known."""

from agent.assessment.snapshot import SlaState
from agent.export.capacity_sentences import indicative_remark
from agent.export.number_formats import format_bounds, format_number, format_seconds, whole_percent
from models.trust import Trust
from models.what_if.predicted_value import PredictedValue

CAPACITY_FIRST_PROBABILITY = 0.5
"""Probability that the capacity is reached before the SLA, above which the text says so."""


def sla_sentences(state: SlaState) -> str:
    """Describe the SLA and the load at which it is reached in two or three sentences."""
    now = f"The SLA is a mean residence time of {format_seconds(state.seconds)}"
    if state.residence_time is not None:
        now += f"; it is {format_seconds(state.residence_time)} now"
    found = state.headroom
    if found.throughput is None or found.ratio is None:
        why = found.reason.sentence if found.reason else "nothing is known yet"
        return f"{now}. The load at which it is reached is not yet identifiable: {why}."
    left = found.ratio.value
    if state.trust is Trust.NOT_IDENTIFIABLE and left > 0:
        least = f"at least {format_number(found.throughput.lower)} queries/s"
        return f"{now}. The load at which it is reached is not yet identifiable: {least}."
    is_capacity_first = (found.capacity_first or 0.0) > CAPACITY_FIRST_PROBABILITY
    reached = "The capacity is reached first, at" if is_capacity_first else "It is reached at"
    rest = f"{whole_percent(left)} of that is left" if left > 0 else "the load is above that"
    doubt = indicative_remark(state.trust)
    return f"{now}. {reached} {_throughput_text(found.throughput)}: {rest}.{doubt}"


def _throughput_text(found: PredictedValue) -> str:
    bounds = format_bounds(found.lower, found.upper)
    return f"{format_number(found.value)} queries/s ({bounds})"
