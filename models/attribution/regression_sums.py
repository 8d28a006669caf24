"""Lines of many classes at once, from sums that add up: textbook least squares, as `models.wlr`."""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_intervals import Array
from models.wlr import NO_LINE, Line

SAME = 1e-9
"""A variance below this part of the mean square is none: the sums have lost it."""


@dataclass(frozen=True)
class RegressionSums:
    """Σ over the ticks where x > 0 of 1, x, z, x², xz and z², shape (6, K)."""

    sums: Array

    @classmethod
    def none(cls, classes: int) -> "RegressionSums":
        """No tick yet."""
        return cls(np.zeros((6, classes)))

    @classmethod
    def of(cls, x: Array, z: Array) -> "RegressionSums":
        """Sum up x and z, shape (T, K)."""
        there = (x > 0).astype(float)
        x, z = x * there, z * there
        return cls(np.stack([t.sum(axis=0) for t in (there, x, z, x * x, x * z, z * z)]))

    def __add__(self, other: "RegressionSums") -> "RegressionSums":
        """Add other ticks of the same classes."""
        return RegressionSums(self.sums + other.sums)

    def faded(self, keep: float) -> "RegressionSums":
        """Let all ticks so far count for this part of what they did, 0..1."""
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
        if samples < 3 or s_xx <= SAME * sxx:
            return Line(sz / sx, 0.0, None, None, None, None, samples)
        slope = s_xz / s_xx
        r_squared = min(s_xz * slope / s_zz, 1.0) if s_zz > SAME * szz else None
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
