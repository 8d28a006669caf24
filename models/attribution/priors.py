"""What is believed of each class before the total is looked at, and what is known after."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from models.attribution.autocorrelation import INFLATION
from models.attribution.class_intervals import Array


@dataclass(frozen=True)
class Priors:
    """What is believed before the total is looked at, per class, units of y, shape (K,)."""

    by_size: Array
    """P_k: calls and rows at shared prices."""
    work: Array | None
    """W_k: work time, any unit; None where time says nothing about y. 0 for a class that cannot
    have computed all that time."""
    most: Array | None = None
    """What each can have used at most; None: not known."""
    least_level: float | None = None
    """What is known of θ beforehand where y is CPU: at least so much of it per second of work, and
    one at most; None: y is something else."""
    waiting: Array | None = None
    """Log of how much more probable what was seen of a class is if it waits; None: nothing was."""
    inflation: float = INFLATION
    """How many ticks tell no more than an independent one."""


@dataclass(frozen=True)
class FittedMixture:
    """What each class used over the ticks learnt from, shape (K,), units of y."""

    totals: Array
    base: float
    """What went on without any class: b·ΣΔt."""
    variances: Array
    """Of the totals, shape (K,)."""
    computing: Array
    """Probability that a class computes while it runs, 0..1."""
    level: float | None
    """θ: use per unit of work time, units of y per unit of work."""
    noise: float
    """Relative standard deviation of a tick, inflation left out."""
    ticks: int

    @classmethod
    def nothing(cls, classes: int, total: float, ticks: int) -> Self:
        """No class used anything: all of the total went on without them."""
        zeros = np.zeros(classes)
        return cls(zeros, total, zeros, zeros + 1, None, 0.0, ticks)

    @property
    def stderr(self) -> Array:
        """Standard error of each total."""
        return np.sqrt(np.maximum(self.variances, 0.0))
