"""A profile as a table, as JSON and as CSV: query classes ranked by resource use."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import NamedTuple

from agent.config.durations import format_duration
from agent.config.timestamps import time_text
from agent.export.attribute_report import COMPARED_WITH, SOURCES, share_bar, shorten_middle
from agent.export.class_names import short_class_name
from agent.export.number_formats import format_aligned, format_percent, format_seconds, format_short
from agent.export.profile_rows import Profile, ProfileRow
from agent.export.time_split_report import (
    KEY,
    WIDTH,
    doubt_texts,
    limit_text,
    parts_text,
    stacked_bar,
)
from agent.query_classes.class_registry import COMBINED_CLASSES, NONE, ClassName
from agent.support.safe_output import for_spreadsheet, json_text
from agent.window.recent_time_split import TimeUse
from models.attribution.class_interval_table import OTHER
from models.attribution.quality_gate import is_predicted_well
from models.attribution.result import AttributionReason
from models.time_split.time_parts import TimePart

NAME_WIDTH, MAX_NAME_WIDTH = 34, 100
NO_LIMIT = "what limits it is not identifiable"
SORT_NAMES = {"cpu": "CPU", "time": "time", "count": "calls", "io": "IO", "latency": "latency"}
MIN_UNCLASSIFIED = 0.02
UNCLASSIFIED = (
    "in no class are statements without a digest, such as MariaDB's prepared ones, and those whose"
    " class is no longer in the server's table"
)
MAX_PERIODS = 3
COLUMNS = (
    *(field.name for field in fields(ProfileRow) if field.name != "time"),
    "limited_by",
    "limited_by_share",
    *(f"time_{part.value}" for part in TimePart),
)
"""The columns of the CSV file, before the source of the CPU."""


class _Column(NamedTuple):
    """A column of the table; a cell is empty where it is not known, else aligned to the right."""

    title: str
    cell: Callable[[ProfileRow], str]


def as_text(profile: Profile, top: int) -> str:
    """Write the profile as a table of what is known, some 80 columns and more where texts are."""
    shown, rest = profile.rows[:top], profile.rows[top:]
    columns, names = _known_columns(profile.rows), _names(shown)
    title = " ".join(column.title for column in columns)
    width = max(map(len, names), default=0)
    lines = [headline(profile), "", f"  {'class':<{width}} {title}".rstrip()]
    lines += [
        _line(f"{name:<{width}}", row, columns) for name, row in zip(names, shown, strict=True)
    ]
    if rest:
        shares = [row.share for row in rest if row.share is not None]
        lines.append(f"  {len(rest)} more" + (f": {format_percent(sum(shares))}" if shares else ""))
    return "\n".join([*lines, "", *_notes(profile)])


def _known_columns(rows: Sequence[ProfileRow]) -> list[_Column]:
    """Return the columns that are known of at least one row."""
    greatest = max((row.share or 0.0 for row in rows), default=0.0) or 1.0
    columns = (
        _Column(f"{'share':>20}", lambda row: _share(row, greatest)),
        _Column(f" {'CPU s':>9}", lambda row: _or_empty(format_short, row.cpu)),
        _Column(f"{'± error':<9}", lambda row: _or_empty(_error, row.cpu_stderr)),
        _Column(f"{'time s':>9}", lambda row: format_aligned(row.seconds)),
        _Column(f"{'calls':>9}", lambda row: _count(row.calls)),
        _Column(f"{'latency':>9}", lambda row: _or_empty(format_seconds, row.latency)),
        _Column(f"{'IO bytes':>9}", lambda row: _or_empty(format_short, row.io)),
        _Column(f"{'gain if removed':>15}", lambda row: _or_empty(_gain, row.removed_gain)),
        _Column(f"{'if halved':>9}", lambda row: _or_empty(_gain, row.halved_gain)),
        _Column(f" {'where its time goes':<{WIDTH}} limited by", _time),
    )
    return [column for column in columns if any(map(column.cell, rows))]


def headline(profile: Profile) -> str:
    """Name the first class in one sentence; the others together only where there is no class."""
    if not profile.rows:
        return f"No statement completed in {format_duration(profile.seconds)}."
    first = next((row for row in profile.rows if row.digest != OTHER), profile.rows[0])
    name, by = shorten_middle(_full_name(first), MAX_NAME_WIDTH), SORT_NAMES[profile.sort]
    if is_plural := first.digest in (OTHER, NONE):
        name = name.capitalize()
    elif first is not profile.rows[0]:
        name = f"Of single classes {name}"
    if first.share is None or profile.sort == "latency":
        return f"{name} {'are' if is_plural else 'is'} first by {by}."
    share = format_percent(first.share)
    verb = "have" if is_plural else "has"
    return f"{name} {verb} the greatest share of the {by}: {share}.{_but_unclassified(profile)}"


def _but_unclassified(profile: Profile) -> str:
    """Return how much time is in no class, where that is enough to change the order."""
    share = profile.unclassified_share or 0.0
    if share < MIN_UNCLASSIFIED:
        return ""
    return f" But {format_percent(share)} of all statement time is in no class."


def as_json(profile: Profile, top: int) -> str:
    """Write the profile as JSON; null where something is not known."""
    content = {
        "sort": profile.sort,
        "seconds": profile.seconds,
        "cpu": {
            "source": profile.cpu_source.value if profile.cpu_source else None,
            "total": profile.cpu_total,
            "unattributed": profile.cpu_unattributed,
            "held_out_mape": profile.cpu_held_out_mape,
            "disagreement": profile.disagreement,
            "reasons": [reason.value for reason in profile.reasons],
        },
        "unclassified_share": profile.unclassified_share,
        "saturated_periods": [asdict(period) for period in profile.saturated_periods],
        "io": {
            name: {
                "total": moved.total,
                "unattributed": moved.unattributed,
                "held_out_mape": moved.held_out.mape,
                "held_out_r_squared": moved.held_out.r_squared,
                "reasons": [reason.value for reason in moved.reasons],
            }
            for name, moved in profile.io.items()
        },
        "time": profile.time and _time_object(profile.time),
        "recorded": profile.recorded,
        "classes": [_record(row) for row in profile.rows[:top]],
    }
    return json_text(content, indent=2)


def as_csv(profile: Profile, top: int) -> str:
    """Write the profile as CSV, each row with the CPU's source; empty where one is not known."""
    out = io.StringIO()
    source = profile.cpu_source.value if profile.cpu_source else None
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, "cpu_source"])
    for row in profile.rows[:top]:
        values = (*_record(row).values(), source)
        writer.writerow(_cell(value) for value in values)
    return out.getvalue().rstrip("\n")


def _time_object(use: TimeUse) -> dict[str, object]:
    """Return the time split of the whole server for JSON."""
    limited = use.limited_by
    return {
        "shares": {part.value: share for part, share in use.split.known_shares.items()},
        "limited_by": limited.limit.value if limited else None,
        "limited_by_share": limited.share if limited else None,
        "excess": use.split.excess,
        "unknown": sorted(part.value for part in use.split.unknown),
    }


def _record(row: ProfileRow) -> dict[str, object]:
    """Return every column of a row by its name; the time split is a column for each share."""
    values = {
        field.name: getattr(row, field.name) for field in fields(ProfileRow) if field.name != "time"
    }
    limited = row.limited_by
    values["limited_by"] = limited.limit.value if limited else None
    values["limited_by_share"] = limited.share if limited else None
    shares = row.time.known_shares if row.time else {}
    return values | {f"time_{part.value}": shares.get(part) for part in TimePart}


def _names(rows: Sequence[ProfileRow]) -> list[str]:
    """Return a name for each class, shortened as much as it can be while all of them differ."""
    full = [_full_name(row) for row in rows]
    count = Counter(full)
    full = [
        f"{row.schema}: {name}" if count[name] > 1 and row.schema else name
        for name, row in zip(full, rows, strict=True)
    ]
    for width in range(NAME_WIDTH, MAX_NAME_WIDTH + 1):
        names = [shorten_middle(name, width) for name in full]
        if len(set(names)) == len(set(full)):
            break
    return names


def _full_name(row: ProfileRow) -> str:
    if row.text and row.digest not in COMBINED_CLASSES:
        return row.text.replace("`", "").strip()
    return short_class_name(ClassName(row.schema, row.digest))


def _line(name: str, row: ProfileRow, columns: Sequence[_Column]) -> str:
    cells = (f"{column.cell(row) or '–':>{len(column.title)}}" for column in columns)
    waits = "  waits" if row.waits else ""
    return f"  {name} {' '.join(cells)}{waits}".rstrip()


def _share(row: ProfileRow, greatest: float) -> str:
    if row.share is None:
        return ""
    return f"{share_bar(row.share, greatest)} {format_percent(row.share):>7}"


def _error(error: float) -> str:
    return f"{f'± {format_short(error)}':<9}"


def _gain(gain: float) -> str:
    """Format a gain of capacity, as a share of the present one."""
    return f"+{format_percent(gain)}"


def _time(row: ProfileRow) -> str:
    if row.time is None:
        return ""
    return f" {stacked_bar(row.time):<{WIDTH}} {limit_text(row.limited_by):<10}"


def _count(calls: float) -> str:
    return f"{calls:.0f}" if calls < 1000 else format_short(calls)


def _or_empty(write: Callable[[float], str], value: float | None) -> str:
    return "" if value is None else write(value)


def _notes(profile: Profile) -> list[str]:
    return [
        _period_note(profile),
        *_sort_notes(profile),
        *([f"  {'caution':<14} {UNCLASSIFIED}"] if _but_unclassified(profile) else []),
        *_cpu_notes(profile),
        *_io_notes(profile),
        *_time_notes(profile),
        *_fix_first_notes(profile),
    ]


def _sort_notes(profile: Profile) -> list[str]:
    """Return why the classes are not in the requested order, if they are not."""
    if profile.unknown_sort is None:
        return []
    wanted = SORT_NAMES[profile.unknown_sort]
    return [f"  {'sorted by':<14} time, as no {wanted} is attributed to any class"]


def _cpu_notes(profile: Profile) -> list[str]:
    if profile.cpu_source is None or profile.cpu_total is None:
        return [
            f"  {'CPU':<14} not known: neither the CPU of the process nor that of statements can"
            " be read"
        ]
    whole = f"{format_short(profile.cpu_total)} s"
    if profile.cpu_unattributed is not None:
        part = profile.cpu_unattributed / (profile.cpu_total or 1.0)
        whole += f", of which {format_percent(part)} is unattributed"
    lines = [
        f"  {'CPU':<14} {whole}",
        f"  {'source':<14} {SOURCES[profile.cpu_source]}",
    ]
    if profile.cpu_held_out_mape is not None:
        error = format_percent(profile.cpu_held_out_mape)
        lines.append(f"  {'held out':<14} the total within {error} on average")
    if profile.disagreement is not None and profile.compared_with is not None:
        moved = format_percent(profile.disagreement / 2)
        other = COMPARED_WITH[profile.compared_with]
        lines.append(f"  {'disagreement':<14} {moved} of the use differs with {other}")
    return [*lines, *(f"  {'caution':<14} {_sentence(r, profile)}" for r in profile.reasons)]


def _sentence(reason: AttributionReason, profile: Profile) -> str:
    """Return the reason's sentence, with the seconds of the profile in which it holds, if known."""
    when = [
        f"{s.start:.0f} to {s.end:.0f}" for s in profile.saturated_periods if s.reason is reason
    ]
    if not when:
        return reason.sentence
    more = f" and {len(when) - MAX_PERIODS} more" if len(when) > MAX_PERIODS else ""
    part = f"in the seconds {', '.join(when[:MAX_PERIODS])}{more} of {profile.seconds:.0f}"
    return f"{reason.sentence} ({part})"


def _io_notes(profile: Profile) -> Iterator[str]:
    """Yield the bytes, the unattributed share and the error; cautions if ranked by IO."""
    for name, moved in profile.io.items():
        part = (
            format_percent(moved.unattributed / moved.total)
            if moved.total > 0
            else format_percent(0.0)
        )
        line = f"  {name:<14} {format_short(moved.total)} bytes, of which {part} is unattributed"
        if moved.held_out.mape is not None:
            line += f"; held out within {format_percent(moved.held_out.mape)}"
            if not is_predicted_well(moved.held_out):
                line += ": calls and rows do not show which class caused them"
        yield line
    if profile.sort == "io":
        io_reasons = {reason for moved in profile.io.values() for reason in moved.reasons}
        cautions = (r for r in AttributionReason if r in io_reasons and r not in profile.reasons)
        yield from (f"  {'caution':<14} {reason.sentence}" for reason in cautions)


def _time_notes(profile: Profile) -> Iterator[str]:
    """Yield the time split of all statements, and the doubts about it."""
    if profile.time is None or not profile.time.split.shares:
        return
    split = profile.time.split
    limit = limit_text(profile.time.limited_by) if profile.time.limited_by else NO_LIMIT
    yield f"  {'time':<14} {limit}: {parts_text(split)}"
    yield f"  {'in the bars':<14} {KEY}"
    yield from (f"  {'caution':<14} {doubt}" for doubt in doubt_texts(split))


def _period_note(profile: Profile) -> str:
    if profile.is_of_sums:
        return f"  {'summed up':<14} by the server, over {format_duration(profile.seconds)} at most"
    if profile.recorded is None:
        return f"  {'watched':<14} {profile.seconds:.0f} s"
    first, last = map(time_text, profile.recorded)
    return f"  {'recorded':<14} {format_duration(profile.seconds)} from {first} to {last}"


def _fix_first_notes(profile: Profile) -> list[str]:
    """Return the class whose removal gains most capacity, where that is known."""
    known = [row for row in profile.rows if row.removed_gain]
    if not known:
        return []
    first = max(known, key=lambda row: row.removed_gain or 0.0)
    gains = f"without it {format_percent(first.removed_gain or 0.0)} more of all other queries fits"
    if first.halved_gain is not None:
        gains += f", at half its cost {format_percent(first.halved_gain)}"
    return [f"  {'fix first':<14} {shorten_middle(_full_name(first), MAX_NAME_WIDTH)}: {gains}"]


def _cell(value: object) -> object:
    """Return a CSV cell: empty if unknown; text is escaped so that it is not a formula."""
    if value is None:
        return ""
    return for_spreadsheet(value) if isinstance(value, str) else value
