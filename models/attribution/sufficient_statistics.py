"""Additive sums kept instead of samples: for least squares, lines, and autocorrelation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.attribution.weighted_linear_regression import NO_LINE, Line
from models.numerics import NEGLIGIBLE
from models.robust_regression import persistence_of


@dataclass(frozen=True, slots=True)
class Moments:
    """Weighted sums over intervals, for the fit of y = Σ_k c_k·g_k + b·Δt; blocks can be added.

    The last row and column belong to Δt, so that K classes make shapes (K+1, K+1) and (K+1,). A
    sliding window is the sum of its blocks; nothing is subtracted from an older sum.
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

    def with_factors(self, factors: Array) -> "Moments":
        """Multiply each regressor and Δt by a factor, shape (K+1,)."""
        return Moments(
            self.gram * factors[:, None] * factors,
            self.projection * factors,
            self.square,
            self.totals * factors,
            self.y_total,
            self.intervals,
        )

    def scaled(self) -> "Moments":
        """Scale each regressor by its total, y by Σy, and weights so that Σ w·y² = intervals."""
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

    def residual_square(self, coefficients: Array) -> Array:
        """Compute Σ w·(y − ŷ)² for coefficients of shape (…, K+1)."""
        c = coefficients
        fitted = ((c @ self.gram) * c).sum(axis=-1)
        square: Array = np.maximum(self.square - 2 * c @ self.projection + fitted, 0.0)
        return square


@dataclass(frozen=True, slots=True)
class RegressionSums:
    """Sums over the intervals where x > 0 of 1, x, z, x², xz and z², shape (6, K).

    The lines of all classes follow from them: least squares, as in
    `weighted_linear_regression`.
    """

    sums: Array

    @classmethod
    def empty(cls, classes: int) -> "RegressionSums":
        """Return the sums of no interval."""
        return cls(np.zeros((6, classes)))

    @classmethod
    def of(cls, x: Array, z: Array) -> "RegressionSums":
        """Sum up x and z, shape (T, K)."""
        present = (x > 0).astype(float)
        x, z = x * present, z * present
        return cls(np.array((present, x, z, x * x, x * z, z * z)).sum(axis=1))

    def __add__(self, other: "RegressionSums") -> "RegressionSums":
        """Add other intervals of the same classes."""
        return RegressionSums(self.sums + other.sums)

    def faded(self, keep: float) -> "RegressionSums":
        """Multiply the weight of all intervals so far by a factor, 0..1."""
        return RegressionSums(self.sums * keep)

    def arranged(self, place: NDArray[np.intp]) -> "RegressionSums":
        """Return the classes at these indices, in this order; −1 is a new one."""
        if not self.sums.shape[1]:
            return RegressionSums.empty(len(place))
        return RegressionSums(np.where(place >= 0, self.sums[:, place], 0.0))

    def line(self, k: int) -> Line:
        """Fit the line of class k: z = intercept + slope·x.

        Through the origin with fewer than three intervals: two do not tell an intercept from noise.
        """
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
"""Least share of a total that a class is given, and least error of a share."""
INFLATION = 4.0
"""Factor on the variance of an interval: the model is not exact, and the regressors of an interval
share errors. Without it standard errors come out half as large as they should be."""


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """Sums of the relative errors of successive intervals, for the effective number of intervals.

    Costs that drift with the load, a checkpoint or a cold cache cause similar errors for a long
    time. With errors of lag-1 autocorrelation ρ, the mean of n is as uncertain as that of
    n·(1 − ρ)/(1 + ρ) independent ones (G. Bayley, J. Hammersley, "The 'Effective' Number of
    Independent Observations in an Autocorrelated Time Series", J. R. Stat. Soc. Suppl. 8 (1946)).
    """

    products: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, y: Array, expected: Array) -> "Autocorrelation":
        """Sum up the errors of successive intervals, shape (T,)."""
        known = expected > 0
        error = np.where(known, y / np.where(known, expected, 1.0) - 1, 0.0)
        error = np.minimum(error, 1.0)  # a single outlier is no persistent error
        return cls(float(error[1:] @ error[:-1]), float(error @ error))

    def __add__(self, other: "Autocorrelation") -> "Autocorrelation":
        """Add other intervals."""
        return Autocorrelation(self.products + other.products, self.squares + other.squares)

    @property
    def inflation(self) -> float:
        """The number of intervals with as much information as one independent interval."""
        persistence = float(persistence_of(self.products, self.squares))
        return INFLATION * persistence


NO_ERRORS = Autocorrelation()
