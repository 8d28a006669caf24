"""Where statement time goes, on the page: stacked bars, with a legend for each target."""

from collections.abc import Iterator
from html import escape

from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.export.number_formats import whole_percent
from agent.export.page_colours import (
    BLUE_60,
    CYAN_50,
    GRAY_60,
    GREEN_50,
    MAGENTA_50,
    ORANGE_50,
    ORANGE_60,
)
from agent.export.time_split_report import LIMITS, NAMES, doubt_texts, parts_text
from models.time_split.time_parts import TimePart, TimeSplit

COLOURS = {
    TimePart.CPU: BLUE_60,
    TimePart.PROCESSOR_QUEUE: CYAN_50,
    TimePart.DISK_SEQUENTIAL: ORANGE_60,
    TimePart.DISK_RANDOM: ORANGE_50,
    TimePart.NETWORK: GREEN_50,
    TimePart.LOCKS: MAGENTA_50,
    TimePart.NOT_ALLOCATED: GRAY_60,
}
WIDTH, HEIGHT = 600, 18
CLASS_WIDTH, CLASS_HEIGHT = 120, 12
SWATCH = 10


def time_section(snapshot: Snapshot, now: float) -> str:
    """Return a bar with two sentences and a legend; empty if nothing is known."""
    time = snapshot.current_time_use(now)
    if time is None or not time.split.shares:
        return ""
    whole = f"the statement time of the last {format_duration(time.seconds)}"
    lead = f"What limits {whole} is not identifiable."
    if (limited := time.limited_by) is not None:
        share = whole_percent(limited.share)
        lead = f"Of {whole}, {share} is limited by {LIMITS[limited.limit]}."
    details = "; ".join([parts_text(time.split), *doubt_texts(time.split)])
    bar = _bar(time.split, WIDTH, HEIGHT)
    return f'<p>{escape(lead)}</p>{bar}<p class="grey">{escape(details)}.</p>{_legend(time.split)}'


def class_bar(split: TimeSplit) -> str:
    """Return the bar of a query class, for its row of the table."""
    return _bar(split, CLASS_WIDTH, CLASS_HEIGHT)


def _bar(split: TimeSplit, width: int, height: int) -> str:
    label = escape(parts_text(split))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">'
        f"{''.join(_rectangles(split, width, height))}</svg>"
    )


def _rectangles(split: TimeSplit, width: int, height: int) -> Iterator[str]:
    left = 0.0
    for part, share in split.known_shares.items():
        title = f"<title>{escape(NAMES[part])} {whole_percent(share)}</title>"
        place = f'x="{left:.1f}" y="0" width="{share * width:.1f}" height="{height}"'
        yield f'<rect {place} fill="{COLOURS[part]}">{title}</rect>'
        left += share * width


def _legend(split: TimeSplit) -> str:
    """Return the legend of all known parts, including those that only a class may have."""
    known = [
        f'<span><svg viewBox="0 0 {SWATCH} {SWATCH}" width="{SWATCH}" aria-hidden="true">'
        f'<rect width="{SWATCH}" height="{SWATCH}" fill="{COLOURS[part]}"/></svg> '
        f"{escape(NAMES[part])}</span>"
        for part in TimePart
        if part not in split.unknown
    ]
    return f'<p class="legend grey">{" &ensp; ".join(known)}</p>'
