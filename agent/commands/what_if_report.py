"""The answer to a what-if question as a table."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from agent.commands.text_table import table_lines
from agent.export.capacity_sentences import resource_display_name
from agent.export.number_formats import DASH, format_number, format_seconds
from agent.export.snapshot_json import JsonObject
from agent.what_if.question import FACTORS

COLUMNS = ("", "capacity", "90 % interval", "gain", "residence time", "90 % interval", "limit")
RIGHT = (1, 3, 4)
WIDTH = 100
"""Characters of a line of notes."""


def as_table(found: JsonObject, counts: Mapping[str, str]) -> str:
    """Write the values of today, of each change and of all changes, and what was assumed.

    `counts` has the counts that were asked for, such as 8 cores, by the name of the change.
    """
    rows = [COLUMNS, *(_row(name, one) for name, one in _named_predictions(found, counts))]
    return "\n".join([_headline(found), "", *table_lines(rows, RIGHT), *_notes(found, counts)])


def _named_predictions(
    found: JsonObject, counts: Mapping[str, str]
) -> Iterator[tuple[str, JsonObject]]:
    """Yield the prediction for today, for each change, and for all if there are several."""
    yield "today", found["today"]
    for one in found["changes"]:
        yield _name(one, counts), one
    if len(found["changes"]) > 1:
        yield "all changes", found["then"]


def _headline(found: JsonObject) -> str:
    load = found["load"]
    if load is None:
        return f"{found['target']}: no load is known now."
    x, r = format_number(load["throughput"]), format_seconds(load["residence_time"])
    return f"{found['target']} at {x} queries/s, with a residence time of {r}."


def _name(change: JsonObject, counts: Mapping[str, str]) -> str:
    name, factor = change["change"], f"{change['factor']:.4g}x"
    if name in counts:
        factor = f"{counts[name]} ({factor})"
    is_named = name in FACTORS
    return f"{name.replace('_', ' ') if is_named else name[:16]} {factor}"


def _row(name: str, one: JsonObject) -> tuple[str, ...]:
    capacity, gain, time = one["capacity"], one["gain"], one["residence_time"]
    return (
        name,
        format_number(capacity["value"]) + " /s" if capacity else DASH,
        _interval(capacity, format_number),
        f"{100 * gain['value']:+z.0f} %" if gain else DASH,
        format_seconds(time["value"]) if time else DASH,
        _interval(time, format_seconds),
        resource_display_name(one["limit"]) if one["limit"] else DASH,
    )


def _interval(known: JsonObject | None, words: Any) -> str:
    if known is None:
        return ""
    if known["upper"] is None:
        return f"at least {words(known['lower'])}"
    if known["lower"] == known["upper"]:
        return "measured"
    return f"{words(known['lower'])} to {words(known['upper'])}"


def _notes(found: JsonObject, counts: Mapping[str, str]) -> Iterator[str]:
    """Write unknowns, assumptions and doubts, each under its heading and without repetition."""
    unknown = dict[str, list[str]]()
    for name, one in _named_predictions(found, counts):
        for text in one["unknown"]:
            unknown.setdefault(text, []).append(name)
    doubts = [f"{text[:1].upper()}{text[1:]}." for text in found["doubts"]]
    yield from _list("Not known:", [f"{', '.join(n)}: {text}" for text, n in unknown.items()])
    yield from _list("Assumed:", found["assumptions"])
    yield from _list("Today's capacity is not trusted:", doubts)


def _list(heading: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from ("", heading)
    for text in texts:
        yield from wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
