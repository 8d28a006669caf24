"""Use by the classes: counters of those that are shown, and recent totals."""

from collections.abc import Mapping, Sequence

import numpy as np

from agent.query_classes.class_counters import DecayedTotals, TopKCounters
from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_models import Shares
from agent.query_classes.class_registry import NOBODY
from agent.query_classes.divided_resources import RESOURCES
from agent.query_classes.state import IntervalUsage
from agent.query_classes.tracked_classes import TrackedClasses
from models.attribution.class_intervals import Array, ClassIntervals

CALLS, TIME = "calls", "statement_time"
QUANTITIES = (CALLS, TIME)
WAITED = ("lock_time", "rows_examined", "rows_sent")
"""Counters that the split of a class's time needs beside its attributed resources."""
COUNTED = ("errors", "no_index_used", "no_good_index_used", "tmp_disk_tables")
"""What is summed up besides, where the server counts it."""
DIVIDED = tuple(resource.name for resource in RESOURCES)


class ClassUsage:
    """Sums by class of calls, statement time, each resource and the server's counters."""

    def __init__(self, shown: int, keep: float) -> None:
        self.counters = TopKCounters((*QUANTITIES, *DIVIDED, *COUNTED), shown)
        self.recent = DecayedTotals(QUANTITIES, keep)
        self._waited = DecayedTotals(WAITED, keep)
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
        for name in DIVIDED:
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
        """A shown class's sums by quantity, those left out that nobody could count."""
        return self._by_quantity(self.counters.shown[key])

    def recent_of(self, key: str) -> dict[str, float]:
        """A class's recent calls, time and waits, older intervals counting less."""
        return {**self.recent.of(key), **self._waited.of(key)}

    def divided(self) -> list[str]:
        """The resources of which anything was known."""
        return [name for name in DIVIDED if name in self._known]

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
    """Sum up what the intervals have of `WAITED`, shape (K, 3); 0 for what they lack."""
    known = {"lock_time": table.lock_time, **dict(table.sizes)}
    return np.stack([_summed(table, known.get(name)) for name in WAITED], axis=1)


def _summed(table: ClassIntervals, values: Array | None) -> Array:
    return np.zeros(len(table.names)) if values is None else values.sum(axis=0)


def _counted(intervals: Sequence[ClassInterval]) -> list[str]:
    """The server's counters that it has."""
    known = {name for i in intervals if i.changes is not None for name in i.changes.names}
    return [name for name in COUNTED if name in known]
