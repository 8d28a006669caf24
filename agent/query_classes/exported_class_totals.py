"""Counters per class that only ever rise, for as many classes as are shown; decayed totals.

Each series has its own sum. A class that comes among the shown ones begins at 0, and from then on
the rest no longer receives it; one that leaves keeps its sum, unseen, to go on with when it comes
back. So no counter falls or jumps because of a change of the displayed classes.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from agent.query_classes.attribution_snapshot import IntervalUsage, Shares
from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import NOBODY
from agent.query_classes.divided_resources import RESOURCES
from agent.query_classes.tracked_classes import TrackedClasses
from models.attribution.class_time_series import AGENT, OTHER, Array, ClassIntervals

MIN_REPLACING_RATIO = 1.3
"""Ratio of uses at which a class takes another's place."""
FORMER_PER_PLACE = 10
"""Number of former classes that are remembered for each place."""
ALWAYS_SHOWN = (OTHER, AGENT)


class TopKCounters:
    """Sums of some quantities for the `places` greatest classes, and for all others together."""

    def __init__(self, quantities: Sequence[str], places: int) -> None:
        self.quantities = tuple(quantities)
        self.left_over = np.zeros(len(self.quantities))
        """Of each quantity, what no class explains."""
        self._places = places
        self._shown: dict[str, Array] = {name: self._zeros() for name in ALWAYS_SHOWN}
        self._gone: OrderedDict[str, Array] = OrderedDict()
        self._owed: dict[str, Array] = {}
        self._left_over_owed = self._zeros()

    @property
    def shown(self) -> Mapping[str, Array]:
        """The sums by class, shape (quantities,) each; those that are always there included."""
        return self._shown

    def add(
        self, names: Sequence[str], uses: Array, left_over: Mapping[str, float]
    ) -> tuple[dict[str, Array], Array]:
        """Add what classes used, shape (names, quantities), and what is left of each quantity.

        What is negative, as where a long statement's time was counted while it ran, is owed by
        the class, and taken off what comes next. Answers by how much each sum rose, and what is
        left of each quantity.
        """
        before = {name: sums.copy() for name, sums in self._shown.items()}
        for name, row in zip(names, uses, strict=True):
            owed = self._owed.pop(name, None)
            total = row if owed is None else row + owed
            if (total < 0).any():
                self._owed[name] = np.minimum(total, 0.0)
            shown = self._shown.get(name)
            (self._shown[OTHER] if shown is None else shown)[:] += np.maximum(total, 0.0)
        left = np.array([left_over.get(name, 0.0) for name in self.quantities])
        total = left + self._left_over_owed
        self._left_over_owed = np.minimum(total, 0.0)
        left = np.maximum(total, 0.0)
        self.left_over += left
        return {name: sums - before[name] for name, sums in self._shown.items()}, left

    def choose(self, use: Mapping[str, float]) -> None:
        """Show the classes that use most, the ones that are shown preferred when in doubt."""
        candidates = {name: u for name, u in use.items() if name not in ALWAYS_SHOWN and u > 0}
        worth = {
            name: u * (MIN_REPLACING_RATIO if name in self._shown else 1.0)
            for name, u in candidates.items()
        }
        wanted = sorted(worth, key=lambda name: (-worth[name], name))[: self._places]
        for name in [n for n in self._shown if n not in ALWAYS_SHOWN and n not in wanted]:
            self._gone[name] = self._shown.pop(name)
        for name in wanted:
            if name not in self._shown:
                before = self._gone.pop(name, None)
                self._shown[name] = self._zeros() if before is None else before
        while len(self._gone) > FORMER_PER_PLACE * self._places:
            self._gone.popitem(last=False)

    def _zeros(self) -> Array:
        return np.zeros(len(self.quantities))


class DecayedTotals:
    """Recent totals of each class: sums that decay a little with every interval.

    `keep` is the part that an interval leaves of those before it.
    """

    def __init__(self, quantities: Sequence[str], keep: float) -> None:
        self.quantities = tuple(quantities)
        self.seconds = 0.0
        """How long they were summed up, faded as they are."""
        self._keep = keep
        self._sums: dict[str, Array] = {}

    def add(self, names: Sequence[str], uses: Array, seconds: float) -> None:
        """Add an interval, shape (names, quantities); whoever has no name now is of the rest."""
        self.seconds = self._keep * self.seconds + seconds
        sums = {name: np.maximum(row, 0.0) for name, row in zip(names, uses, strict=True)}
        for name, before in self._sums.items():
            into = name if name in sums else OTHER
            sums[into] = sums.get(into, 0.0) + self._keep * before
        self._sums = sums

    def of(self, name: str) -> Mapping[str, float]:
        """A class's sums by quantity."""
        sums = self._sums.get(name, np.zeros(len(self.quantities)))
        return dict(zip(self.quantities, map(float, sums), strict=True))

    def by(self, quantity: str) -> dict[str, float]:
        """One quantity's sums by class."""
        i = self.quantities.index(quantity)
        return {name: float(sums[i]) for name, sums in self._sums.items()}


CALLS, TIME = "calls", "statement_time"

QUANTITIES = (CALLS, TIME)

TIME_SPLIT_COUNTERS = ("lock_time", "rows_examined", "rows_sent", "on_disk", "ready")
"""Counters that the split of a class's time needs beside its attributed resources."""

EVENT_COUNTERS = ("errors", "no_index_used", "no_good_index_used", "tmp_disk_tables")
"""Further sums, if the server counts them."""

DIVIDED_RESOURCES = tuple(resource.name for resource in RESOURCES)


class ClassUsage:
    """Sums by class of calls, statement time, each resource and the server's counters."""

    def __init__(self, shown: int, keep: float) -> None:
        self.counters = TopKCounters((*QUANTITIES, *DIVIDED_RESOURCES, *EVENT_COUNTERS), shown)
        self.recent = DecayedTotals(QUANTITIES, keep)
        self._waited = DecayedTotals(TIME_SPLIT_COUNTERS, keep)
        self._known = set[str](QUANTITIES)
        self._whole_known = set[str]()

    def add(
        self,
        at: float,
        table: ClassIntervals,
        tracked: TrackedClasses,
        intervals: Sequence[ClassInterval],
        shares: Shares,
    ) -> IntervalUsage:
        """Add what was used in these intervals, which ended at `at` (Unix seconds)."""
        columns = {CALLS: _summed(table, table.count), TIME: _time(table)}
        columns |= {name: share.uses for name, share in shares.items()}
        columns |= {name: tracked.counted(intervals, name) for name in _counted(intervals)}
        self._known |= columns.keys()
        left = {CALLS: 0.0, TIME: 0.0}
        for name in DIVIDED_RESOURCES:
            used = [interval.used[name] for interval in intervals if name in interval.used]
            if used:
                left[name] = sum(used) - float(columns[name].sum() if name in columns else 0.0)
        self._whole_known |= left.keys()
        self._known |= left.keys()
        nothing = np.zeros(len(table.names))
        uses = np.stack([columns.get(name, nothing) for name in self.counters.quantities], axis=1)
        rose, nobody = self.counters.add(table.names, uses, left)
        risen = {name: row for name, row in {**rose, NOBODY: nobody}.items() if row.any()}
        seconds = sum(interval.seconds for interval in intervals)
        self.recent.add(table.names, uses[:, : len(QUANTITIES)], seconds)
        self._waited.add(table.names, _waited(table), seconds)
        by_name = {name: self._by_quantity(row) for name, row in risen.items()}
        return IntervalUsage.of(at, seconds, by_name, shares.get("cpu"), table.names)

    def show_greatest(self, cpu: Mapping[str, float]) -> None:
        """Show the classes that recently used most CPU, or most time where no CPU is known."""
        self.counters.choose(cpu if any(cpu.values()) else self.recent.by(TIME))

    def totals(self, key: str) -> dict[str, float]:
        """A displayed class's sums by quantity, without those that could not be counted."""
        return self._by_quantity(self.counters.shown[key])

    def recent_of(self, key: str) -> dict[str, float]:
        """A class's recent calls, time and waits, older intervals counting less."""
        return {**self.recent.of(key), **self._waited.of(key)}

    def divided(self) -> list[str]:
        """The resources of which anything was known."""
        return [name for name in DIVIDED_RESOURCES if name in self._known]

    def left_over(self, name: str) -> float | None:
        """The sum that no class explains; None where the whole was never known."""
        if name not in self._whole_known:
            return None
        return float(self.counters.left_over[self.counters.quantities.index(name)])

    def _by_quantity(self, sums: Array) -> dict[str, float]:
        quantities = zip(self.counters.quantities, sums, strict=True)
        return {name: float(value) for name, value in quantities if name in self._known}


def _time(table: ClassIntervals) -> Array:
    """Sum up statement time, that of statements that still run included, s, shape (K,)."""
    ended = _summed(table, table.statement_time)
    return ended + _summed(table, table.inflight_delta)


def _waited(table: ClassIntervals) -> Array:
    """Sum up the intervals' values of `TIME_SPLIT_COUNTERS`, shape (K, 5); 0 for what they lack."""
    looks = {"on_disk": table.on_disk, "ready": table.ready}
    known = {"lock_time": table.lock_time, **looks, **dict(table.sizes)}
    return np.stack([_summed(table, known.get(name)) for name in TIME_SPLIT_COUNTERS], axis=1)


def _summed(table: ClassIntervals, values: Array | None) -> Array:
    return np.zeros(len(table.names)) if values is None else values.sum(axis=0)


def _counted(intervals: Sequence[ClassInterval]) -> list[str]:
    """The server's counters that it has."""
    known = {name for i in intervals if i.changes is not None for name in i.changes.names}
    return [name for name in EVENT_COUNTERS if name in known]
