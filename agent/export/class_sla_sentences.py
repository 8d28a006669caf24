"""The SLAs of query classes in words: which breaks first, and a sentence for each."""

from collections.abc import Iterator, Mapping

from agent.assessment.snapshot import ClassSlasState, ClassSlaState, Snapshot
from agent.export.capacity_sentences import indicative_remark
from agent.export.class_names import DIGEST_LENGTH
from agent.export.number_formats import format_bounds, format_number, format_seconds, whole_percent
from models.trust import Trust

TEXT_LENGTH = 60


def class_sla_sentences(snapshot: Snapshot, now: float) -> Iterator[str]:
    """Yield a sentence on the first class to break its SLA, if known, and one on each class."""
    state = snapshot.current_class_slas(now)
    if state is None:
        return
    classes = snapshot.current_classes(now)
    texts = {one.name.digest: one.text for one in classes.classes if one.text} if classes else {}
    if (sentence := _first_sentence(state, texts)) is not None:
        yield sentence
    for one in state.classes:
        yield _class_sentence(one, texts, state.trust)


def _first_sentence(state: ClassSlasState, texts: Mapping[str, str]) -> str | None:
    first = state.first
    if first is None or first.headroom.first is None or state.trust is Trust.NOT_IDENTIFIABLE:
        return None
    doubt = indicative_remark(state.trust)
    name = _class_name(first, texts)
    probability = f"probability {whole_percent(first.headroom.first)}"
    return f"The first class to break its SLA as the load grows is {name} ({probability}).{doubt}"


def _class_sentence(one: ClassSlaState, texts: Mapping[str, str], trust: Trust) -> str:
    share = f"{100 * one.quantile:g} %"
    limit = format_seconds(one.seconds)
    sla = f"{_class_name(one, texts)}: {share} of its statements may take {limit}"
    if one.present is not None:
        sla += f"; they take up to {format_seconds(one.present.value)} now"
    ratio = one.headroom.load_ratio
    if ratio is None:
        why = one.headroom.reason.sentence if one.headroom.reason else "nothing is known yet"
        return f"{sla}. The load at which that is reached is not yet identifiable: {why}."
    if trust is Trust.NOT_IDENTIFIABLE and ratio.value > 1:
        least = f"at least {format_number(ratio.lower)} times the load"
        return f"{sla}. The load at which that is reached is not yet identifiable: {least}."
    bounds = format_bounds(ratio.lower, ratio.upper)
    return f"{sla}. That is reached at {format_number(ratio.value)} times the load ({bounds})."


def _class_name(one: ClassSlaState, texts: Mapping[str, str]) -> str:
    return texts.get(one.digest, one.digest[:DIGEST_LENGTH])[:TEXT_LENGTH]
