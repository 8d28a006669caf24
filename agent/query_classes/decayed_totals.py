"""What each class did of late: sums of which every interval that passes leaves a little less."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.attribution.class_intervals import OTHER, Array


class DecayedTotals:
    """Sums by class of some quantities; `keep` is what an interval leaves of those before it."""

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
