"""Sums kept instead of the samples, that add up: for least squares, lines, and autocorrelation."""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_time_series import Array
from models.attribution.published_wlr import NO_LINE, Line
from models.numerics import NEGLIGIBLE
from models.robust import persistence_of


@dataclass(frozen=True)
class Moments:
    """Weighted sums over intervals of y = Σ_k c_k·g_k + b·Δt. Blocks of intervals add up.

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
    intervals: int

    @classmethod
    def of(cls, regressors: Array, seconds: Array, y: Array, weights: Array) -> "Moments":
        """Sum up regressors, shape (T, K), over intervals of these lengths (s) and weights."""
        g = np.column_stack((regressors, seconds))
        weighted = g * weights[:, None]
        return cls(
            gram=g.T @ weighted,
            projection=weighted.T @ y,
            square=float(weights * y @ y),
            totals=g.sum(axis=0),
            y_total=float(y.sum()),
            intervals=len(y),
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Add the intervals of another block."""
        return Moments(
            self.gram + other.gram,
            self.projection + other.projection,
            self.square + other.square,
            self.totals + other.totals,
            self.y_total + other.y_total,
            self.intervals + other.intervals,
        )

    def scaled(self) -> "Moments":
        """Measure each regressor in its total, y in Σy, and weights so that Σ w·y² = intervals."""
        unit = np.where(self.totals > 0, self.totals, 1.0)
        y_unit = self.y_total or 1.0
        weight = self.intervals / (self.square or 1.0)
        return Moments(
            gram=self.gram / unit[:, None] / unit * y_unit**2 * weight,
            projection=self.projection / unit * y_unit * weight,
            square=self.square * weight,
            totals=np.where(self.totals > 0, 1.0, 0.0),
            y_total=1.0,
            intervals=self.intervals,
        )

    def residual_square(self, coefficients: Array) -> float:
        """Σ w·(y − ŷ)² of these coefficients, shape (K+1,)."""
        c = coefficients
        return max(float(self.square - 2 * c @ self.projection + c @ self.gram @ c), 0.0)


@dataclass(frozen=True)
class RegressionSums:
    """Σ over the intervals where x > 0 of 1, x, z, x², xz and z², shape (6, K).

    They make the lines of many classes at once: textbook least squares, as in `published_wlr`.
    """

    sums: Array

    @classmethod
    def none(cls, classes: int) -> "RegressionSums":
        """No interval yet."""
        return cls(np.zeros((6, classes)))

    @classmethod
    def of(cls, x: Array, z: Array) -> "RegressionSums":
        """Sum up x and z, shape (T, K)."""
        there = (x > 0).astype(float)
        x, z = x * there, z * there
        return cls(np.stack([t.sum(axis=0) for t in (there, x, z, x * x, x * z, z * z)]))

    def __add__(self, other: "RegressionSums") -> "RegressionSums":
        """Add other intervals of the same classes."""
        return RegressionSums(self.sums + other.sums)

    def faded(self, keep: float) -> "RegressionSums":
        """Let all intervals so far count for this part of what they did, 0..1."""
        return RegressionSums(self.sums * keep)

    def arranged(self, place: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> "RegressionSums":
        """Take these classes in this order; −1 is one that is new."""
        if not self.sums.shape[1]:
            return RegressionSums.none(len(place))
        return RegressionSums(np.where(place >= 0, self.sums[:, place], 0.0))

    def line(self, k: int) -> Line:
        """The line of class k: z = intercept + slope·x."""
        n, sx, sz, sxx, sxz, szz = map(float, self.sums[:, k])
        if n < 1 or sx <= 0:
            return NO_LINE
        mean_x, mean_z = sx / n, sz / n
        s_xx, s_xz = sxx - n * mean_x**2, sxz - n * mean_x * mean_z
        s_zz = szz - n * mean_z**2
        samples = round(n)
        if samples < 3 or s_xx <= NEGLIGIBLE * sxx:
            return Line(sz / sx, 0.0, None, None, None, None, samples)
        slope = s_xz / s_xx
        r_squared = min(s_xz * slope / s_zz, 1.0) if s_zz > NEGLIGIBLE * szz else None
        residual = float(np.sqrt(max(s_zz - slope * s_xz, 0.0) / (n - 2)))
        return Line(
            slope=slope,
            intercept=mean_z - slope * mean_x,
            r_squared=r_squared,
            slope_stderr=residual / s_xx**0.5,
            intercept_stderr=residual * (1 / n + mean_x**2 / s_xx) ** 0.5,
            residual=residual,
            samples=samples,
        )


MIN_SHARE = 1e-4
"""Of a total: no class has a smaller share, and none is known more exactly."""
INFLATION = 2.0
"""Of the variance where hypotheses are compared, since an interval's regressors err together."""


@dataclass(frozen=True)
class Autocorrelation:
    """Sums of the relative errors of successive intervals: what n intervals are worth.

    Costs that drift with the load, a checkpoint, a cold cache make a model err for long in
    the same way. Of errors with lag-1 autocorrelation ρ the mean of n is as uncertain as that of
    n·(1 − ρ)/(1 + ρ) independent ones (G. Bayley, J. Hammersley, "The 'Effective' Number of
    Independent Observations in an Autocorrelated Time Series", J. R. Stat. Soc. Suppl. 8 (1946)).
    """

    products: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, y: Array, expected: Array) -> "Autocorrelation":
        """Sum up intervals one after the other, shape (T,)."""
        known = expected > 0
        off = np.where(known, y / np.where(known, expected, 1.0) - 1, 0.0)
        off = np.minimum(off, 1.0)  # one accident does not last
        return cls(float(off[1:] @ off[:-1]), float(off @ off))

    def __add__(self, other: "Autocorrelation") -> "Autocorrelation":
        """Add other intervals."""
        return Autocorrelation(self.products + other.products, self.squares + other.squares)

    @property
    def inflation(self) -> float:
        """The number of intervals with as much information as one independent interval."""
        alike = float(persistence_of(self.products, self.squares))
        return INFLATION * alike


NO_ERRORS = Autocorrelation()
