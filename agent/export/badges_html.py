"""A target's state in coloured words, on the page."""

from html import escape

from agent.assessment.snapshot import Snapshot
from models.trust import Trust

TRUST_KINDS = {Trust.TRUSTED: "good", Trust.INDICATIVE: "fair", Trust.NOT_IDENTIFIABLE: "dim"}


def badges(snapshot: Snapshot, now: float) -> str:
    """Return whether the target is up, whether it is overloaded, and its capacity's trust."""
    state = {True: ("up", "good"), False: ("down", "bad"), None: ("connecting", "dim")}
    text, kind = state[snapshot.health.up]
    shown = [_badge(text, kind)]
    capacity = snapshot.capacity(now)
    headroom = snapshot.headroom(now)
    if headroom is not None and headroom.overloaded:
        shown.append(_badge("overloaded", "bad"))
    if capacity is not None:
        trust = capacity.trust
        shown.append(_badge(trust.value.replace("_", " "), TRUST_KINDS[trust]))
    return " ".join(shown)


def _badge(text: str, kind: str) -> str:
    return f'<span class="badge {kind}">{escape(text)}</span>'
