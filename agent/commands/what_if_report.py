"""The answer to a what-if question as a table."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent.commands.text_table import table_lines
from agent.export.capacity_sentences import resource_display_name
from agent.export.fit_report import DASH, format_number, format_seconds
from agent.what_if.question import FACTORS

COLUMNS = ("", "capacity", "90 % interval", "gain", "residence time", "90 % interval", "limit")
RIGHT = (1, 3, 4)
Object = Mapping[str, Any]


def as_table(found: Object, counts: Mapping[str, str]) -> str:
    """Write the values of today, of each change and of all changes, and what was assumed.

    `counts` has the counts that were asked for, such as 8 cores, by the name of the change.
    """
    rows = [COLUMNS, _row("today", found["today"])]
    rows += [_row(_name(one, counts), one) for one in found["changes"]]
    if len(found["changes"]) > 1:
        rows.append(_row("all changes", found["then"]))
    return "\n".join([_headline(found), "", *table_lines(rows, RIGHT), "", *_notes(found)])


def _headline(found: Object) -> str:
    load = found["load"]
    if load is None:
        return f"{found['target']}: no load is known now."
    x, r = format_number(load["throughput"]), format_seconds(load["residence_time"])
    return f"{found['target']} at {x} queries/s, with a residence time of {r}."


def _name(change: Object, counts: Mapping[str, str]) -> str:
    name, factor = change["change"], f"{change['factor']:.4g}x"
    if name in counts:
        factor = f"{counts[name]} ({factor})"
    is_named = name in FACTORS
    return f"{name.replace('_', ' ') if is_named else name[:16]} {factor}"


def _row(name: str, one: Object) -> tuple[str, ...]:
    capacity, gain, time = one["capacity"], one["gain"], one["residence_time"]
    return (
        name,
        format_number(capacity["value"]) + " /s" if capacity else DASH,
        _interval(capacity, format_number),
        f"{100 * gain['value']:+.0f} %" if gain else DASH,
        format_seconds(time["value"]) if time else DASH,
        _interval(time, format_seconds),
        resource_display_name(one["limit"]) if one["limit"] else DASH,
    )


def _interval(known: Object | None, words: Any) -> str:
    if known is None:
        return ""
    if known["upper"] is None:
        return f"at least {words(known['lower'])}"
    if known["lower"] == known["upper"]:
        return "measured"
    return f"{words(known['lower'])} to {words(known['upper'])}"


def _notes(found: Object) -> Iterator[str]:
    """Write unknowns, assumptions and doubts, a line each, without repetition."""
    unknown = [
        text
        for one in (*found["changes"], found["then"], found["today"])
        for text in one["unknown"]
    ]
    for text in dict.fromkeys(unknown):
        yield f"Not known: {text}"
    for text in found["assumptions"]:
        yield f"Assumed: {text}"
    for text in found["doubts"]:
        yield f"Today's capacity is not trusted: {text}."
