"""Two periods of one recording, assessed separately and compared."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from agent.compare.comparison import Comparison, compare, compare_classes, loads_differ
from agent.compare.period_class_costs import ClassCosts, class_costs
from agent.compare.periods import AssessedPeriod, Period, assess_period
from agent.history.open_database import open_to_read
from agent.replay.recording_opener import RecordingSource, ReplayOptions, open_recording

OpenRecording = Callable[[ReplayOptions], AbstractContextManager[RecordingSource]]
"""Opens the recording for the period in the options."""
NO_CLASSES = ClassCosts({})


def compare_periods(
    opening: OpenRecording,
    options: ReplayOptions,
    periods: tuple[Period, Period],
    history: Path | None,
) -> Comparison:
    """Assess both periods and compare them; the costs of query classes come only from a `history`.

    Raises what `opening` does, and `SourceError` if a period has too few intervals.
    """
    first, second = (_assess_side(opening, options, period, history) for period in periods)
    before, after = first.assessed, second.assessed
    return Comparison(
        target=second.target,
        before=before,
        after=after,
        rows=(*compare(before, after), *compare_classes(first.costs, second.costs)),
        loads_differ=loads_differ(before, after),
        source_notes=tuple(dict.fromkeys([*first.notes, *second.notes])),
    )


def compare_history(
    path: Path, options: ReplayOptions, periods: tuple[Period, Period]
) -> Comparison:
    """Compare two periods of an agent's history, also while the agent runs.

    Raises `StoreError`, or `SourceError` if the history has too little of that time.
    """

    def opening(wanted: ReplayOptions) -> AbstractContextManager[RecordingSource]:
        return open_recording(str(path), wanted)

    return compare_periods(opening, options, periods, path)


@dataclass(frozen=True, eq=False, slots=True)
class _Side:
    """One period: the target, its assessment, and what classes cost in it."""

    target: str
    assessed: AssessedPeriod
    costs: ClassCosts
    notes: list[str]


def _assess_side(
    opening: OpenRecording, options: ReplayOptions, period: Period, history: Path | None
) -> _Side:
    period_options = replace(
        options,
        since=period.start,
        until=period.end,
        settings=structs.replace(options.settings, window=period.length),
    )
    with opening(period_options) as source:
        found = assess_period(source, period, options.ceilings)
        notes = source.notes()
    if history is None or source.server is None:
        return _Side(source.target, found, NO_CLASSES, notes)
    with closing(open_to_read(history)) as connection:
        costs = class_costs(connection, source.target, source.server, period)
    return _Side(source.target, found, costs, notes)
