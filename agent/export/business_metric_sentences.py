"""Business metrics in words: the headroom in the unit of each."""

from agent.assessment.snapshot import BusinessState
from agent.export.capacity_sentences import indicative_remark
from agent.export.number_formats import format_bounds, format_number
from models.trust import Trust


def business_metric_sentences(state: BusinessState) -> str:
    """Describe a business metric and its headroom in one or two sentences."""
    now = "not known now" if state.value is None else f"{format_number(state.value)} {state.unit}"
    start = f"{state.name} is {now}"
    found = state.unit_headroom
    if found.amount is None or found.amount.value <= 0:
        why = f": {found.reason.sentence}" if found.reason else ""
        unknown = "the headroom is not yet identifiable"
        return f"{start}; {unknown if found.amount is None else 'no more are possible'}{why}."
    if found.trust is Trust.NOT_IDENTIFIABLE:
        least = f": at least {format_number(found.amount.lower)} more are possible"
        known = least if found.amount.lower > 0 else ""
        return f"{start}; the headroom is not yet identifiable{known}."
    bounds = format_bounds(found.amount.lower, found.amount.upper)
    doubt = indicative_remark(found.trust)
    return f"{start}; {format_number(found.amount.value)} more are possible ({bounds}).{doubt}"
