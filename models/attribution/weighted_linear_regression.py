"""Weighted linear regression: an aggregate divided over classes, then one line per class.

B. Schwartz, "Estimating CPU Per Query With Weighted Linear Regression" (2016), and the sample code
that came with it. It is a division in proportion to x, with error bars: right as long as all
statements that run compute, wrong about those that wait.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array, Mask
from models.numerics import ROUNDING


@dataclass(frozen=True)
class Line:
    """z = intercept + slope·x of one class over the samples where it was present.

    Slope in units of y per unit of x, intercept in units of y. None is what the samples do not
    determine: a slope without samples, R² below two different z, errors below three samples.
    """

    slope: float | None
    intercept: float
    r_squared: float | None
    slope_stderr: float | None
    intercept_stderr: float | None
    residual: float | None
    """Standard deviation around the line, in units of y."""
    samples: int

    @property
    def is_usable(self) -> bool:
        """Whether the slope is positive: a class that runs longer should use more, not less."""
        return self.slope is not None and self.slope > 0

    @property
    def start_cost(self) -> float:
        """The intercept where it is a cost; a negative one counts as 0."""
        return max(self.intercept, 0.0)


NO_LINE = Line(None, 0.0, None, None, None, None, 0)


@dataclass(frozen=True)
class Wlr:
    """One line per class, and the part of y that was attributed to each, shape (K,)."""

    lines: tuple[Line, ...]
    totals: Array

    def predict(self, x: ArrayLike) -> Array:
        """Predict y, shape (T,), from x, shape (T, K): Σ over present classes of a + b·x."""
        given = np.asarray(x, dtype=np.float64)
        slope = np.array(
            [line.slope if line.is_usable else 0.0 for line in self.lines], dtype=float
        )
        start = np.array([line.start_cost if line.is_usable else 0.0 for line in self.lines])
        result: Array = (given > 0) @ start + given @ slope
        return result


def fit_wlr(x: ArrayLike, y: ArrayLike) -> Wlr:
    """Fit x, shape (T, K), to the aggregate y, shape (T,); both at least 0."""
    given = np.asarray(x, dtype=np.float64)
    attributed, used = divide_in_proportion(given, y)
    columns = zip(given[used].T, attributed[used].T, strict=True)
    return Wlr(tuple(fit_line(xs, zs) for xs, zs in columns), attributed.sum(axis=0))


def divide_in_proportion(x: ArrayLike, y: ArrayLike) -> tuple[Array, Mask]:
    """Divide y over the classes in proportion to x: z_k = x_k·y/Σx; shape (T, K), and a mask (T,).

    The mask has the samples that were used: one with y = 0 or Σx = 0 is skipped, and its z is 0.
    """
    given, aggregate = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if given.ndim != 2 or aggregate.shape != given.shape[:1]:
        raise ValueError(f"x of shape (T, K) and y of shape (T,), not {given.shape}")
    if not (np.isfinite(given).all() and np.isfinite(aggregate).all()):
        raise ValueError("x and y must be finite")
    if (given < 0).any() or (aggregate < 0).any():
        raise ValueError("x and y must not be negative")
    largest = given.max(axis=1, initial=0.0)
    used = (aggregate > 0) & (largest > 0)
    part = given / np.where(used, largest, 1.0)[:, None]
    part = part / np.where(used, part.sum(axis=1), 1.0)[:, None]
    return np.where(used[:, None], part * aggregate[:, None], 0.0), used


def fit_line(x: Array, z: Array) -> Line:
    """Regress z on x over the samples with x > 0, shape (T,); textbook least squares.

    One sample, or several of one x: a line through the origin. Two: the line through both.
    """
    present = x > 0
    x, z = x[present], z[present]
    n = len(x)
    if n == 0:
        return NO_LINE
    scale_x, scale_z = float(x.max()), float(z.max()) or 1.0
    dx, dz = x / scale_x, z / scale_z
    mean_x, mean_z = float(dx.mean()), float(dz.mean())
    dx, dz = dx - mean_x, dz - mean_z
    s_xx, s_xz, s_zz = float(dx @ dx), float(dx @ dz), float(dz @ dz)
    unit = scale_z / scale_x
    if s_xx <= n * (ROUNDING * mean_x) ** 2:
        return Line(unit * mean_z / mean_x, 0.0, None, None, None, None, n)
    slope = s_xz / s_xx
    intercept = mean_z - slope * mean_x
    r_squared = min(s_xz * slope / s_zz, 1.0) if s_zz > n * (ROUNDING * mean_z) ** 2 else None
    if n == 2:
        return Line(unit * slope, scale_z * intercept, r_squared, None, None, None, n)
    residual = float(np.sqrt(max(s_zz - slope * s_xz, 0.0) / (n - 2)))
    slope_error = residual / np.sqrt(s_xx)
    return Line(
        unit * slope,
        scale_z * intercept,
        r_squared,
        float(unit * slope_error),
        float(scale_z * residual * np.sqrt(1 / n + mean_x**2 / s_xx)),
        scale_z * residual,
        n,
    )
