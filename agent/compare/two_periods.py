"""Both periods of one recording, assessed separately and compared."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from agent.compare.comparison import Comparison, class_rows, compare, loads_differ
from agent.compare.period_class_costs import ClassCosts, class_costs
from agent.compare.periods import Assessed, Period, assessed
from agent.history.database import open_to_read
from agent.replay.recording_opener import ReplayOptions, Source, opened

Open = Callable[[ReplayOptions], AbstractContextManager[Source]]
"""Opens the recording of the period that the options name."""
NO_CLASSES = ClassCosts({})


def compare_periods(
    opening: Open, wishes: ReplayOptions, periods: tuple[Period, Period], history: Path | None
) -> Comparison:
    """Assess both periods and compare them; what a query class costs is in a `history` alone.

    Raises what `opening` does, and `SourceError` where a period has too few intervals.
    """
    first, second = (_side(opening, wishes, period, history) for period in periods)
    before, after = first.assessed, second.assessed
    return Comparison(
        target=second.target,
        before=before,
        after=after,
        rows=(*compare(before, after), *class_rows(first.costs, second.costs)),
        loads_differ=loads_differ(before, after),
    )


def compare_history(
    path: Path, wishes: ReplayOptions, periods: tuple[Period, Period]
) -> Comparison:
    """Compare two periods of the history of an agent, also while it runs.

    Raises `StoreError`, or `SourceError` where the history has too little of that time.
    """

    def opening(wanted: ReplayOptions) -> AbstractContextManager[Source]:
        return opened(str(path), wanted)

    return compare_periods(opening, wishes, periods, path)


@dataclass(frozen=True, eq=False, slots=True)
class _Side:
    """The target, the assessment of one period, and what classes cost in it."""

    target: str
    assessed: Assessed
    costs: ClassCosts


def _side(opening: Open, wishes: ReplayOptions, period: Period, history: Path | None) -> _Side:
    wanted = replace(
        wishes,
        since=period.start,
        until=period.end,
        settings=structs.replace(wishes.settings, window=period.length),
    )
    with opening(wanted) as source:
        found = assessed(source, period, wishes.ceilings)
    if history is None or source.server is None:
        return _Side(source.target, found, NO_CLASSES)
    with closing(open_to_read(history)) as connection:
        costs = class_costs(connection, source.target, source.server, period)
    return _Side(source.target, found, costs)
