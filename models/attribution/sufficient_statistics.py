"""The sums that a least-squares fit needs, kept instead of the samples."""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_intervals import Array


@dataclass(frozen=True)
class Moments:
    """Weighted sums over ticks of y = Σ_k c_k·g_k + b·Δt. Blocks of ticks add up.

    The last row and column belong to Δt; K classes make shapes (K+1, K+1) and (K+1,). A window
    that slides is the sum of its blocks, never a difference of old sums.
    """

    gram: Array
    """Σ w·gg'."""
    projection: Array
    """Σ w·g·y."""
    square: float
    """Σ w·y²."""
    totals: Array
    """Σ g, not weighted: what one unit of each coefficient adds to Σ y."""
    y_total: float
    ticks: int

    @classmethod
    def of(cls, regressors: Array, seconds: Array, y: Array, weights: Array) -> "Moments":
        """Sum up regressors, shape (T, K), over ticks of these lengths (s) and weights."""
        g = np.column_stack((regressors, seconds))
        weighted = g * weights[:, None]
        return cls(
            gram=g.T @ weighted,
            projection=weighted.T @ y,
            square=float(weights * y @ y),
            totals=g.sum(axis=0),
            y_total=float(y.sum()),
            ticks=len(y),
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Add the ticks of another block."""
        return Moments(
            self.gram + other.gram,
            self.projection + other.projection,
            self.square + other.square,
            self.totals + other.totals,
            self.y_total + other.y_total,
            self.ticks + other.ticks,
        )

    def scaled(self) -> "Moments":
        """Measure each regressor in its total, y in Σy, and weights so that Σ w·y² = ticks."""
        unit = np.where(self.totals > 0, self.totals, 1.0)
        y_unit = self.y_total or 1.0
        weight = self.ticks / (self.square or 1.0)
        return Moments(
            gram=self.gram / unit[:, None] / unit * y_unit**2 * weight,
            projection=self.projection / unit * y_unit * weight,
            square=self.square * weight,
            totals=np.where(self.totals > 0, 1.0, 0.0),
            y_total=1.0,
            ticks=self.ticks,
        )

    def residual_square(self, coefficients: Array) -> float:
        """Σ w·(y − ŷ)² of these coefficients, shape (K+1,)."""
        c = coefficients
        return max(float(self.square - 2 * c @ self.projection + c @ self.gram @ c), 0.0)
