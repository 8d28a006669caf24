"""The classes that have a column of their own in the models, and the table of what all of them did.

The others share one column, and the agent's own statements another.
"""

from collections.abc import Sequence

import numpy as np

from agent.query_classes.class_intervals import ClassInterval, class_table, counted
from agent.query_classes.class_registry import ClassRegistry, Numbers
from models.attribution.class_intervals import AGENT, OTHER, Array, ClassIntervals

STAYS = 1.5
"""A tracked class keeps its column until another is so many times as great."""
USED = ("statement_time", "calls", "rows_examined")
"""A class is as great as the sum of its shares of these."""


class TrackedClasses:
    """The greatest classes, at most so many; `keep` is what an update leaves of earlier use."""

    def __init__(self, registry: ClassRegistry, most: int, keep: float = 1.0) -> None:
        self.registry = registry
        self.keys: list[str] = []
        self._most, self._keep = most, keep
        self._weights: Array = np.zeros(0)

    @property
    def names(self) -> tuple[str, ...]:
        """The table's columns."""
        return (*self.keys, OTHER, AGENT)

    def update(self, intervals: Sequence[ClassInterval]) -> None:
        """Give the greatest classes a column, those that have one preferred."""
        weights = np.zeros(len(self.registry))
        weights[: len(self._weights)] = self._weights * self._keep
        for interval in intervals:
            _add_weights(weights, interval)
        self._weights = weights
        worth = weights.copy()
        worth[[self.registry.number(key) for key in self.keys]] *= STAYS
        best = np.argsort(-worth, kind="stable")[: self._most + len(self._own)]
        keys = [self.registry.keys[n] for n in best if worth[n] > 0]
        self.keys = [key for key in keys if not self.registry.is_own(key)][: self._most]

    def table(self, intervals: Sequence[ClassInterval]) -> ClassIntervals:
        """What the classes did in these intervals, none of which was lost."""
        texts = tuple(self.registry.text_for_models(key) for key in self.keys)
        return class_table(intervals, self._columns(), self.names, (*texts, None, None))

    def counted(self, intervals: Sequence[ClassInterval], counter: str) -> Array:
        """Sum up one of the server's counters, shape (names,)."""
        return counted(intervals, self._columns(), len(self.names), counter)

    def forget_others(self) -> None:
        """Forget all classes that have no column; the numbers of the others are new."""
        self.registry.keep(self.keys)
        self._weights = np.ones(len(self.keys))

    @property
    def _own(self) -> list[int]:
        return [n for n, key in enumerate(self.registry.keys) if self.registry.is_own(key)]

    def _columns(self) -> Numbers:
        """The column of every class that was met."""
        columns = np.full(len(self.registry), self.names.index(OTHER), dtype=np.intp)
        columns[self._own] = self.names.index(AGENT)
        for i, key in enumerate(self.keys):
            columns[self.registry.number(key)] = i
        return columns


def _add_weights(weights: Array, interval: ClassInterval) -> None:
    """Add each class's shares of what was used; a statement that still runs uses time."""
    changes = interval.changes
    if changes is None:
        return
    for name in USED:
        if name in changes.names:
            used = changes.values[:, changes.names.index(name)]
            if name == "statement_time":
                used = used + np.maximum(changes.in_flight, 0.0)
            weights[changes.classes] += used / max(float(used.sum()), 1e-9)
