"""Checks of what a fault leaves in the history: no impossible value and no other gap."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from history_rows import is_sound, rows

from agent.history.row_kinds import INTERVALS, Row
from testbed.real.daemon import PlausiblePage, wait_until

THROUGHPUT, SPENT = (
    [column.name for column in INTERVALS.columns].index(name)
    for name in ("throughput", "statement_time")
)
EDGE = 3.0  # seconds of the stretch within which an interval ends


@dataclass(frozen=True)
class Span:
    """A period of wall time (Unix seconds)."""

    began: float
    ended: float


def left_behind(
    path: Path, span: Span, longest_gaps: Mapping[str, int], sane: PlausiblePage
) -> list[str]:
    """What is wrong with the file: its pages, a value, or a longer gap (s) in a target's intervals.

    Targets that are not named may have gaps of any length.
    """
    wait_until("it is written", lambda: not unwritten(path, span, longest_gaps))
    found = [row for row in rows(path, INTERVALS) if row.at / 1000 >= span.began]
    sick = [] if is_sound(path) else ["the file is not sound"]
    holes = [
        text for name, most in longest_gaps.items() for text in holes_of(name, found, span, most)
    ]
    return sick + holes + [text for row in found for text in complaints(row, sane)]


def unwritten(path: Path, span: Span, unbroken: Collection[str]) -> set[str]:
    """Return the targets whose intervals are not stored up to the end."""
    late = {row.labels[0] for row in rows(path, INTERVALS) if row.at / 1000 >= span.ended}
    return set(unbroken) - late


def holes_of(name: str, found: list[Row], span: Span, longest_gap: int) -> list[str]:
    """Return the gaps between a target's intervals, in seconds."""
    times = sorted(row.at / 1000 for row in found if row.labels[0] == name)
    first = min((at for at in times if at >= span.ended), default=span.ended)
    inside = [at for at in times if span.began <= at <= first]
    if not inside or inside[0] > span.began + EDGE + longest_gap:
        return [f"{name}: nothing from {span.began:.0f}"]
    return [
        f"{name}: {b - a:.1f} s to {b:.0f}"
        for a, b in pairwise(inside)
        if round(b - a) > longest_gap
    ]


def complaints(row: Row, sane: PlausiblePage) -> list[str]:
    """Return what is impossible in an interval."""
    return [
        f"{row.labels[0]}: {INTERVALS.columns[place].name} {value} at {row.at}"
        for place, most in ((THROUGHPUT, sane.queries), (SPENT, sane.threads))
        if isinstance(value := row.cells[place], float) and not 0 <= value <= most
    ]
