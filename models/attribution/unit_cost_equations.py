"""Normal equations of one unit cost per class, solved by eigenvalues of the classes' sums.

Unknowns are (u, b, c): K unit costs relative to ū, the base as a part of Σy, and their mean. Of
the matrix only the K·K sums are great; b and c are a border of two rows around them, taken out by
Schur's complement.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.attribution.class_intervals import Array, Mask
from models.attribution.eigendecomposition import Ridge, Spectrum
from models.attribution.nnls import pivoted
from models.numerics import NEGLIGIBLE, ROUNDING

"""Precision of an unknown without a prior."""


@dataclass(frozen=True)
class UnitCostProblem:
    """Weighted sums over intervals, of y in units of its total and of K classes that were there."""

    spectrum: Spectrum
    """Of the classes' sums Σ w·xx', shape (K, K)."""
    border: Array
    """Σ w·x·Δt, shape (K,)."""
    corner: float
    """Σ w·Δt²."""
    projection: Array
    """Σ w·(x, Δt)·y, shape (K+1,)."""
    square: float
    """Σ w·y²."""
    intervals: int
    base_spread: float | None

    @property
    def classes(self) -> int:
        """The number K of classes."""
        return len(self.border)

    def under(self, tau: float, noise: float) -> "UnitCostEquations":
        """Set up the normal equations at a strength and the variance of an interval."""
        return UnitCostEquations(self, 1 / tau**2, noise)

    def residual_square(self, coefficients: Array) -> float:
        """Σ w·(y − ŷ)² of these (u, b), shape (K+1,)."""
        u, b = coefficients[:-1], float(coefficients[-1])
        fitted = u @ self.spectrum.product(u) + 2 * b * (u @ self.border) + b**2 * self.corner
        return max(float(self.square - 2 * coefficients @ self.projection + fitted), 0.0)


@dataclass(frozen=True)
class UnitCostEquations:
    """M·(u, b, c) = v at one strength and noise."""

    problem: UnitCostProblem
    precision: float
    noise: float

    @cached_property
    def sides(self) -> Array:
        """M's columns of b and c in the classes' rows, shape (K, 2)."""
        common = np.full(self.problem.classes, -self.precision)
        return np.column_stack((self.problem.border / self.noise, common))

    @property
    def corner(self) -> Array:
        """M's rows and columns of b and c, shape (2, 2)."""
        spread = self.problem.base_spread
        base = NEGLIGIBLE if spread is None else 1 / spread**2
        together = self.problem.classes * self.precision * (1 + NEGLIGIBLE) + NEGLIGIBLE
        return np.diag([self.problem.corner / self.noise + base, together])

    @cached_property
    def vector(self) -> Array:
        """v, shape (K+2,)."""
        return np.append(self.problem.projection / self.noise, 0.0)

    def at(self, free: Mask) -> "Solved":
        """Leave these unknowns free, shape (K+2,), and hold the others at 0."""
        ridge = Ridge(self.problem.spectrum, self.noise, self.precision, ~free[:-2])
        return Solved(self, ridge, free[-2:])

    def minimum(self, start: Array) -> Array:
        """Find the minimum over (u, b, c) ≥ 0, from that of a similar problem."""
        scale = np.sqrt(np.append(self._diagonal, np.diag(self.corner)))
        tolerance = ROUNDING * float(np.abs(self.vector / scale).max())
        return np.maximum(
            pivoted(
                start > 0,
                lambda free: self.at(free).solution(),
                lambda x: (self.product(x) - self.vector) / scale,
                tolerance,
            ),
            0.0,
        )

    def product(self, x: Array) -> Array:
        """M·x, shape (K+2,)."""
        u, ends = x[:-2], x[-2:]
        inner = self.problem.spectrum.product(u) / self.noise + self.precision * u
        return np.append(inner + self.sides @ ends, u @ self.sides + self.corner @ ends)

    @property
    def _diagonal(self) -> Array:
        spectrum = self.problem.spectrum
        result: Array = spectrum.vectors**2 @ spectrum.values / self.noise + self.precision
        return result


@dataclass(frozen=True)
class Solved:
    """The equations with some unknowns held at 0."""

    equations: UnitCostEquations
    ridge: Ridge
    ends: Mask
    """Mask of those of b and c that are free, shape (2,)."""

    def solution(self) -> Array:
        """(u, b, c), shape (K+2,), 0 where held."""
        vector, sides = self.equations.vector, self.equations.sides[:, self.ends]
        alone = self.ridge.solve(vector[:-2, None])[:, 0]
        ends = np.zeros(2)
        ends[self.ends] = np.linalg.solve(self._complement, vector[-2:][self.ends] - alone @ sides)
        return np.append(alone - self._through @ ends[self.ends], ends)

    def variances(self) -> Array:
        """The diagonal of M⁻¹, shape (K+2,), 0 where held."""
        inverse = np.linalg.inv(self._complement)
        beside = ((self._through @ inverse) * self._through).sum(axis=1)
        ends = np.zeros(2)
        ends[self.ends] = np.diag(inverse)
        return np.append(self.ridge.variances() + beside, ends)

    def log_determinant(self) -> float:
        """ln|M|."""
        return self.ridge.log_determinant() + float(np.linalg.slogdet(self._complement)[1])

    @cached_property
    def _through(self) -> Array:
        """H⁻¹ of the columns of b and c that are free."""
        return self.ridge.solve(self.equations.sides[:, self.ends])

    @cached_property
    def _complement(self) -> Array:
        free = self.ends
        corner = self.equations.corner[np.ix_(free, free)]
        result: Array = corner - self.equations.sides[:, free].T @ self._through
        return result
