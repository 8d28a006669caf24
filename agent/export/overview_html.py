"""All targets as a table of the page, a row for each, the most urgent first."""

from collections.abc import Callable, Iterable
from html import escape

from agent.assessment.snapshot import Snapshot
from agent.export.badges_html import badges
from agent.export.capacity_sentences import full_resource_sentence, likely_limits
from agent.export.number_cells import (
    CAPACITY,
    HEADROOM,
    SATURATED_SOON,
    THROUGHPUT,
    capacity_cells,
    load_cells,
)
from agent.export.table_html import html_table
from agent.support.counted import counted
from models.trust import Trust

COLUMNS = ("target", "state and trust", HEADROOM, THROUGHPUT, CAPACITY, "limit", SATURATED_SOON)
LinkTo = Callable[[str], str]
"""Returns the link to a target's own page, by its name."""


def overview(snapshots: Iterable[Snapshot], now: float, link_to: LinkTo) -> str:
    """Return a section with the table; `now` in Unix seconds."""
    ordered = sorted(snapshots, key=lambda snapshot: _urgency(snapshot, now))
    rows = "".join(_row(snapshot, now, link_to) for snapshot in ordered)
    table = html_table("overview of all targets", COLUMNS, rows, "overview")
    order = "first those that are down, overloaded or full, then by headroom"
    count = counted(len(ordered), "target")
    return f'<section><p class="grey">{count}, {order}.</p>{table}</section>'


def _urgency(snapshot: Snapshot, now: float) -> tuple[int, float, str]:
    """Return the key to sort by: the smallest is the most urgent."""
    headroom, capacity = snapshot.headroom(now), snapshot.capacity(now)
    if snapshot.health.up is False:
        return 0, 0.0, snapshot.target
    if headroom is not None and headroom.overloaded:
        return 1, headroom.ratio, snapshot.target
    if full_resource_sentence(snapshot, now):
        return 2, 0.0, snapshot.target
    if headroom is None or capacity is None or capacity.trust is Trust.NOT_IDENTIFIABLE:
        return 4, 0.0, snapshot.target
    return 3, headroom.ratio, snapshot.target


def _row(snapshot: Snapshot, now: float, link_to: LinkTo) -> str:
    shown = (*load_cells(snapshot, now), *capacity_cells(snapshot, now))
    values = {name: value for name, value, _ in shown}
    link = f'<a href="{escape(link_to(snapshot.target))}">{escape(snapshot.target)}</a>'
    texts = {**values, "limit": _limit_text(snapshot, now)}
    cells = (link, badges(snapshot, now), *(escape(texts.get(name, "")) for name in COLUMNS[2:]))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _limit_text(snapshot: Snapshot, now: float) -> str:
    """Return the likely limit, if one is identifiable, and what is full below the capacity."""
    capacity = snapshot.capacity(now)
    if capacity is None:
        return ""
    limit = "" if capacity.trust is Trust.NOT_IDENTIFIABLE else likely_limits(capacity)
    full = full_resource_sentence(snapshot, now)
    return ". ".join(filter(None, (limit, full)))
