"""Counters per class that only ever rise, for as many classes as are shown; decayed totals.

Each series has its own sum. A class that comes among the shown ones begins at 0, and from then on
the rest no longer receives it; one that leaves keeps its sum, unseen, to go on with when it comes
back. So no counter falls or jumps because of who is shown.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from models.attribution.class_intervals import AGENT, OTHER, Array

ENTERS = 1.3
"""A class takes another's place when it uses so many times as much."""
REMEMBERED = 10
"""For each place, so many classes that have left are remembered."""
ALWAYS = (OTHER, AGENT)


class TopKCounters:
    """Sums of some quantities for the `places` greatest classes, and for all others together."""

    def __init__(self, quantities: Sequence[str], places: int) -> None:
        self.quantities = tuple(quantities)
        self.left_over = np.zeros(len(self.quantities))
        """Of each quantity, what no class explains."""
        self._places = places
        self._shown: dict[str, Array] = {name: self._zeros() for name in ALWAYS}
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
        candidates = {name: u for name, u in use.items() if name not in ALWAYS and u > 0}
        worth = {
            name: u * (ENTERS if name in self._shown else 1.0) for name, u in candidates.items()
        }
        wanted = sorted(worth, key=lambda name: (-worth[name], name))[: self._places]
        for name in [n for n in self._shown if n not in ALWAYS and n not in wanted]:
            self._gone[name] = self._shown.pop(name)
        for name in wanted:
            if name not in self._shown:
                before = self._gone.pop(name, None)
                self._shown[name] = self._zeros() if before is None else before
        while len(self._gone) > REMEMBERED * self._places:
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
