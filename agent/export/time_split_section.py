"""Where statement time goes, on the page: a stacked bar with its legend."""

from collections.abc import Iterator
from html import escape

from agent.assessment.snapshot import Snapshot
from agent.config.durations import words
from agent.export.time_split_report import NAMES, doubts_in_words, limited_words, parts_in_words
from models.time_split.split import Part, TimeSplit

COLOURS = {
    Part.CPU: "#2f6fb3",
    Part.PROCESSOR_QUEUE: "#8fb8e0",
    Part.DISK_SEQUENTIAL: "#c28a1d",
    Part.DISK_RANDOM: "#e3bb62",
    Part.NETWORK: "#3f8f5b",
    Part.LOCKS: "#b3453a",
    Part.NOT_ALLOCATED: "#9aa5af",
}
WIDTH, HEIGHT = 600, 18


def time_section(snapshot: Snapshot, now: float) -> str:
    """A bar and two sentences; empty where nothing is known."""
    time = snapshot.current_time_use(now)
    if time is None or not time.split.shares:
        return ""
    limited = "What limits it is not identifiable from"
    if time.limited_by is not None:
        limited = f"Limited by {limited_words(time.limited_by)} of"
    lead = f"{limited} the statement time of the last {words(time.seconds)}."
    said = "; ".join([parts_in_words(time.split), *doubts_in_words(time.split)])
    return f'<p>{escape(lead)}</p>{_bar(time.split)}<p class="grey">{escape(said)}.</p>'


def _bar(split: TimeSplit) -> str:
    label = escape(parts_in_words(split))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(_rectangles(split))}</svg>"
    )


def _rectangles(split: TimeSplit) -> Iterator[str]:
    left = 0.0
    for part, share in split.shares.items():
        title = f"<title>{escape(NAMES[part])} {share:.0%}</title>"
        place = f'x="{left:.1f}" y="0" width="{share * WIDTH:.1f}" height="{HEIGHT}"'
        yield f'<rect {place} fill="{COLOURS[part]}">{title}</rect>'
        left += share * WIDTH
