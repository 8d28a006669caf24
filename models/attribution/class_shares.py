"""How a block of ticks' use of one resource was divided over its classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.attribution.class_intervals import Array
from models.attribution.divide import Method


@dataclass(frozen=True)
class ClassShares:
    """What each class used in a block of ticks, units of the resource, shape (K,)."""

    source: Method
    uses: Array
    estimate: Array
    """The estimate, where `uses` was measured; else the same."""
    error: Array
    """Standard error of the estimate as a part of it; NaN where it cannot be told."""
    waits: Array
    """1 for a class whose time passes without use."""

    @property
    def is_measured(self) -> bool:
        """Whether the server itself accounts for it."""
        return self.source is Method.MEASURED

    def errors(self, names: Sequence[str]) -> dict[str, float]:
        """Standard errors by name, units of the resource; none where it was measured."""
        if self.is_measured:
            return {}
        errors = zip(names, self.error * self.uses, strict=True)
        return {name: float(error) for name, error in errors if np.isfinite(error)}

    def waiting(self, names: Sequence[str]) -> frozenset[str]:
        """The names of those whose time passes without use."""
        return frozenset(name for name, waits in zip(names, self.waits, strict=True) if waits)
