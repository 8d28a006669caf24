"""The query classes as a table of the page: their use, and the gain from optimising each."""

from collections.abc import Iterator
from html import escape

from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.export.attribute_report import share_bar
from agent.export.class_names import short_class_name
from agent.export.number_formats import format_percent, format_seconds, whole_percent
from agent.export.table_html import html_table
from agent.export.time_split_html import class_bar
from agent.export.time_split_report import limit_text
from agent.query_classes.attribution_snapshot import ClassState, ResourceState
from agent.query_classes.capacity_gain import CapacityGain, capacity_gain
from agent.query_classes.class_time_splits import class_key
from agent.support.safe_output import printable
from models.attribution.result import DivisionMethod
from models.time_split.limiting_resource import LimitedBy
from models.time_split.time_parts import TimeSplit

COLUMNS = (
    "query class",
    "share",
    "CPU",
    "rel. error",
    "time",
    "calls",
    "gain if removed",
    "gain if halved",
    "where its time goes",
    "limited by",
)

SOURCES = {
    DivisionMethod.MEASURED: "measured by the server",
    DivisionMethod.WORK_TIME: "estimated from work time",
    DivisionMethod.LEARNED: "estimated from calls and rows",
    DivisionMethod.WLR: "estimated from time",
}
TEXT_LENGTH = 100


def classes_table(snapshot: Snapshot, now: float) -> str:
    """Return a table with a row for each class shown, largest first; empty if none is known."""
    state = snapshot.current_classes(now)
    if state is None:
        return ""
    cpu = state.resource("cpu")
    if cpu is not None and cpu.total <= 0:
        cpu = None  # it is no longer known
    ranked_by = "cpu" if cpu is not None else "statement_time"
    total = sum(one.recent.get(ranked_by, 0.0) for one in state.classes)
    if total <= 0:
        return ""
    ranked = sorted(state.classes, key=lambda one: -one.recent.get(ranked_by, 0.0))
    greatest = ranked[0].recent.get(ranked_by, 0.0) / total
    splits, capacity = snapshot.class_splits(now), snapshot.capacity(now)
    rows = "".join(
        _row(
            one,
            ranked_by,
            (total, greatest),
            capacity_gain(state, one, capacity),
            splits.get(class_key(one)),
        )
        for one in ranked
    )
    period = (
        f"Queries of the last {format_duration(state.recent_seconds)}; older minutes count less."
    )
    caption = f'<p class="grey">{period}</p>'
    table = html_table(f"query classes of {snapshot.target}", COLUMNS, rows, "classes")
    return f"{caption}{table}{_cpu_note(cpu)}"


def _row(
    one: ClassState,
    ranked_by: str,
    scale: tuple[float, float],
    gains: CapacityGain,
    split: TimeSplit | None,
) -> str:
    total, greatest = scale
    share = one.recent.get(ranked_by, 0.0) / total
    cells = (
        _class_name(one),
        share_bar(share, greatest),
        format_percent(share) if ranked_by == "cpu" else "",
        "" if one.error is None or ranked_by != "cpu" else whole_percent(one.error),
        format_seconds(one.recent.get("statement_time", 0.0)),
        _call_count(one.recent.get("calls", 0.0)),
        "" if gains.removed is None else f"+{whole_percent(gains.removed)} capacity",
        "" if gains.halved is None else f"+{whole_percent(gains.halved)}",
    )
    time = class_bar(split) if split else "", limit_text(LimitedBy.of(split)) if split else ""
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (*map(escape, cells), *time)) + "</tr>"


def _call_count(calls: float) -> str:
    """Format a number of calls, of which older ones count in part, as a whole number."""
    return "below 1" if 0 < calls < 0.5 else f"{calls:,.0f}"


def _class_name(one: ClassState) -> str:
    """Return the beginning of the text, marked as cut, or the short name, as one visible line."""
    if one.text is not None:
        end = " ..." if len(one.text) > TEXT_LENGTH else ""
        return printable(one.text[:TEXT_LENGTH]) + end
    return printable(short_class_name(one.name)) + (" (waits)" if one.waits else "")


def _cpu_note(cpu: ResourceState | None) -> str:
    if cpu is None:
        return '<p class="grey">CPU is not known here: classes are ranked by their time.</p>'
    return f'<p class="grey">CPU {escape("; ".join(_cpu_notes(cpu)))}.</p>'


def _cpu_notes(cpu: ResourceState) -> Iterator[str]:
    if cpu.source is not None:
        yield SOURCES[cpu.source]
    if cpu.unattributed_share is not None:
        yield f"{whole_percent(cpu.unattributed_share)} of it is unattributed"
    if cpu.held_out.mape is not None:
        yield f"the total is predicted within {whole_percent(cpu.held_out.mape)}"
    yield from (reason.sentence for reason in cpu.reasons)
