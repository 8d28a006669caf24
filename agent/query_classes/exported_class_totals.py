"""Counters per class that never decrease, for the displayed classes, and decayed totals.

Each series has its own sum. A class that begins to be displayed starts at 0, and from then on the
rest no longer includes it; one that is no longer displayed keeps its sum, and continues from it
when it returns. So no counter falls or jumps because of a change of the displayed classes.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from agent.query_classes.attribution_snapshot import IntervalUsage, SharesByResource
from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import UNATTRIBUTED
from agent.query_classes.resource_meter import RESOURCES
from agent.query_classes.tracked_classes import TrackedClasses
from agent.support.compact_numbers import CompactNumbers
from models.arrays import Array
from models.attribution.class_interval_table import AGENT, OTHER, ClassIntervals

MIN_REPLACING_RATIO = 1.3
"""Ratio of uses at which a class replaces a displayed one."""
FORMER_PER_PLACE = 10
"""Number of former classes that are remembered for each place."""
ALWAYS_SHOWN = (OTHER, AGENT)


class TopKCounters:
    """Sums of some quantities for the `places` largest classes, and for all others together."""

    def __init__(self, quantities: Sequence[str], places: int) -> None:
        self.quantities = tuple(quantities)
        self.unattributed = np.zeros(len(self.quantities))
        """The unattributed part of each quantity."""
        self._places = places
        self._shown: dict[str, Array] = {name: self._zeros() for name in ALWAYS_SHOWN}
        self._gone: OrderedDict[str, Array] = OrderedDict()
        self._owed: dict[str, Array] = {}
        self._unattributed_owed = self._zeros()

    @property
    def shown(self) -> Mapping[str, Array]:
        """The sums by class, shape (quantities,) each, including the classes always displayed."""
        return self._shown

    def add(
        self, names: Sequence[str], uses: Array, unattributed: Mapping[str, float]
    ) -> tuple[dict[str, Array], Array]:
        """Add what classes used, shape (names, quantities), and what no class explains.

        A negative use, as where a long statement's time was counted while it ran, is owed by the
        class, and deducted from what follows; the others owe it once the class has no name here.
        Returns the increase of each sum, and of what no class explains.
        """
        self._pass_debts_to_others(names)
        before = {name: sums.copy() for name, sums in self._shown.items()}
        for name, row in zip(names, uses, strict=True):
            owed = self._owed.pop(name, None)
            total = row if owed is None else row + owed
            if (total < 0).any():
                self._owed[name] = np.minimum(total, 0.0)
            shown = self._shown.get(name)
            (self._shown[OTHER] if shown is None else shown)[:] += np.maximum(total, 0.0)
        left = np.array([unattributed.get(name, 0.0) for name in self.quantities])
        total = left + self._unattributed_owed
        self._unattributed_owed = np.minimum(total, 0.0)
        left = np.maximum(total, 0.0)
        self.unattributed += left
        return {name: sums - before[name] for name, sums in self._shown.items()}, left

    def _pass_debts_to_others(self, names: Sequence[str]) -> None:
        """Let the others owe what classes owe that are none of `names`: they use it there now."""
        kept = {*names, OTHER}
        for name in [name for name in self._owed if name not in kept]:
            self._owed[OTHER] = self._owed.get(OTHER, 0.0) + self._owed.pop(name)

    def choose(self, use: Mapping[str, float]) -> None:
        """Display the classes that use most; in close cases, keep those that are displayed."""
        candidates = {name: u for name, u in use.items() if name not in ALWAYS_SHOWN and u > 0}
        scores = {
            name: u * (MIN_REPLACING_RATIO if name in self._shown else 1.0)
            for name, u in candidates.items()
        }
        wanted = sorted(scores, key=lambda name: (-scores[name], name))[: self._places]
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

    `keep` is the factor that an interval applies to the earlier sums.
    """

    def __init__(self, quantities: Sequence[str], keep: float) -> None:
        self.quantities = tuple(quantities)
        self.seconds = 0.0
        """Seconds in which the uses were known, decayed like the sums."""
        self._keep = keep
        self._names: tuple[str, ...] = ()
        self._sums = np.zeros((0, len(self.quantities)))
        """Of each of these names, shape (names, quantities)."""

    def add(self, names: Sequence[str], uses: Array, seconds: float) -> None:
        """Add uses, shape (names, quantities), of so many seconds in which they are known.

        Classes without a name join the others.
        """
        self.seconds = self._keep * self.seconds + seconds
        kept = (*names,) if OTHER in names else (*names, OTHER)
        sums = np.zeros((len(kept), len(self.quantities)))
        sums[: len(names)] = np.maximum(uses, 0.0)
        row_of = {name: row for row, name in enumerate(kept)}
        for name, before in zip(self._names, self._sums, strict=True):
            sums[row_of.get(name, row_of[OTHER])] += self._keep * before
        self._names, self._sums = kept, sums

    def of(self, names: Collection[str]) -> Mapping[str, float]:
        """Return the sums of these classes by quantity."""
        sums = np.zeros(len(self.quantities))
        for name in names:
            if name in self._names:
                sums += self._sums[self._names.index(name)]
        return dict(zip(self.quantities, map(float, sums), strict=True))

    def by(self, quantity: str) -> dict[str, float]:
        """Return one quantity's sums by class."""
        i = self.quantities.index(quantity)
        return dict(zip(self._names, self._sums[:, i].tolist(), strict=True))


CALLS, TIME = "calls", "statement_time"

QUANTITIES = (CALLS, TIME)

TIME_SPLIT_COUNTERS = ("lock_time", "rows_examined", "rows_sent", "on_disk", "ready")
"""Counters that the split of a class's time needs in addition to its attributed resources."""

EVENT_COUNTERS = ("errors", "no_index_used", "no_good_index_used", "tmp_disk_tables")
"""Further sums, if the server has these counters."""

DIVIDED_RESOURCES = tuple(resource.name for resource in RESOURCES)


class ClassUsage:
    """Sums by class of calls, statement time, each resource and the server's counters."""

    def __init__(self, shown: int, keep: float) -> None:
        self.counters = TopKCounters((*QUANTITIES, *DIVIDED_RESOURCES, *EVENT_COUNTERS), shown)
        self.recent = DecayedTotals(QUANTITIES, keep)
        self._recent_time_split = DecayedTotals(TIME_SPLIT_COUNTERS, keep)
        self._known = set[str](QUANTITIES)
        self._whole_known = set[str]()

    def add(
        self,
        at: float,
        table: ClassIntervals,
        tracked: TrackedClasses,
        intervals: Sequence[ClassInterval],
        shares: SharesByResource,
    ) -> IntervalUsage:
        """Add what was used in these intervals, which ended at `at` (Unix seconds)."""
        columns = {CALLS: _summed(table, table.count), TIME: _statement_times(table)}
        columns |= {name: share.uses for name, share in shares.items()}
        columns |= {
            name: tracked.counter_sums(intervals, name) for name in _event_counters(intervals)
        }
        self._known |= columns.keys()
        unattributed = _unattributed(intervals, columns)
        cpu = shares.get("cpu")
        if cpu is not None and cpu.is_measured and table.cpu is not None:
            columns["cpu"] = table.cpu.sum(axis=0)  # also where the whole server's is not known
        self._whole_known |= unattributed.keys()
        self._known |= unattributed.keys()
        nothing = np.zeros(len(table.names))
        uses = np.stack([columns.get(name, nothing) for name in self.counters.quantities], axis=1)
        increases, increase = self.counters.add(table.names, uses, unattributed)
        risen = {
            name: row for name, row in {**increases, UNATTRIBUTED: increase}.items() if row.any()
        }
        seconds = sum(interval.seconds for interval in intervals if interval.is_known)
        known = float(table.seconds.sum())
        self.recent.add(table.names, uses[:, : len(QUANTITIES)], known)
        self._recent_time_split.add(table.names, _time_split_sums(table), known)
        by_name = {name: self._by_quantity(row) for name, row in risen.items()}
        return IntervalUsage.of(at, seconds, by_name, cpu, table.names)

    def show_greatest(self, cpu: Mapping[str, float]) -> None:
        """Display the classes with the most recent CPU, or statement time if no CPU is known."""
        self.counters.choose(cpu if any(cpu.values()) else self.recent.by(TIME))

    def totals(self, key: str) -> CompactNumbers:
        """Return a displayed class's sums by quantity, without those that could not be counted."""
        return self._by_quantity(self.counters.shown[key])

    def recent_of(self, keys: Collection[str]) -> Mapping[str, float]:
        """Return the recent calls, time and waits of these classes; older intervals count less."""
        return {**self.recent.of(keys), **self._recent_time_split.of(keys)}

    def divided_resources(self) -> list[str]:
        """Return the resources of which anything was known."""
        return [name for name in DIVIDED_RESOURCES if name in self._known]

    def unattributed(self, name: str) -> float | None:
        """Return the sum that no class explains; None if the whole was never known."""
        if name not in self._whole_known:
            return None
        return float(self.counters.unattributed[self.counters.quantities.index(name)])

    def _by_quantity(self, sums: Array) -> CompactNumbers:
        quantities = zip(self.counters.quantities, sums, strict=True)
        return CompactNumbers({name: value for name, value in quantities if name in self._known})


def _statement_times(table: ClassIntervals) -> Array:
    """Sum the statement time, running statements included, s, shape (K,)."""
    ended = _summed(table, table.statement_time)
    return ended + _summed(table, table.inflight_delta)


def _time_split_sums(table: ClassIntervals) -> Array:
    """Sum the intervals' values of `TIME_SPLIT_COUNTERS`, shape (K, 5); missing ones are 0."""
    thread_states = {"on_disk": table.on_disk, "ready": table.ready}
    known = {"lock_time": table.lock_time, **thread_states, **dict(table.sizes)}
    return np.stack([_summed(table, known.get(name)) for name in TIME_SPLIT_COUNTERS], axis=1)


def _summed(table: ClassIntervals, values: Array | None) -> Array:
    return np.zeros(len(table.names)) if values is None else values.sum(axis=0)


def _event_counters(intervals: Sequence[ClassInterval]) -> list[str]:
    """Return the event counters that the server has."""
    known = {name for i in intervals if i.changes is not None for name in i.changes.names}
    return [name for name in EVENT_COUNTERS if name in known]


def _unattributed(
    intervals: Sequence[ClassInterval], columns: Mapping[str, Array]
) -> dict[str, float]:
    """Return what the whole server used of each divided resource beyond what classes did."""
    left = {CALLS: 0.0, TIME: 0.0}
    for name in DIVIDED_RESOURCES:
        used = [interval.used[name] for interval in intervals if name in interval.used]
        if used:
            left[name] = sum(used) - float(columns[name].sum() if name in columns else 0.0)
    return left
