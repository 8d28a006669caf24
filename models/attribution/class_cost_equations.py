"""Normal equations of one unit cost per class, solved by eigenvalues of the classes' sums.

Unknowns are (u, b, c): K unit costs relative to ū, the base as a part of Σy, and their mean. Of
the matrix only the K·K sums are great: G = VΛV' is taken apart once, and G/s + P·I is inverted and
measured in products of V for every noise s and precision P (W. Press et al., "Numerical Recipes"
(3rd ed.), 15.4 and 2.7). b and c are a border of two rows, taken out by Schur's complement.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.attribution.class_time_series import Array, Mask
from models.attribution.nnls import pivoted
from models.numerics import NEGLIGIBLE, ROUNDING


@dataclass(frozen=True)
class Spectrum:
    """G = VΛV' of K classes; beyond the r eigenvalues that are kept it is 0."""

    values: Array
    """Λ, shape (r,), at least 0."""
    vectors: Array
    """V, orthonormal columns, shape (K, r)."""

    @classmethod
    def of_gram(cls, gram: Array) -> "Spectrum":
        """Take G itself apart, shape (K, K)."""
        values, vectors = np.linalg.eigh(gram)
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def of_rows(cls, rows: Array) -> "Spectrum":
        """Take X'X apart, X of shape (T, K); of fewer rows than columns at the cost of T·T·K."""
        if len(rows) >= rows.shape[1]:
            return cls.of_gram(rows.T @ rows)
        basis, triangle = np.linalg.qr(rows.T)
        inner = cls.of_gram(triangle @ triangle.T)
        return cls(inner.values, basis @ inner.vectors)

    def product(self, x: Array) -> Array:
        """G·x, shape (K,)."""
        result: Array = self.vectors @ (self.values * (x @ self.vectors))
        return result


@dataclass(frozen=True)
class Ridge:
    """H = G/s + P·I with the classes `held` left out of it; answers are 0 there."""

    spectrum: Spectrum
    noise: float
    precision: float
    held: Mask

    def solve(self, right: Array) -> Array:
        """H⁻¹·right, shape (K, M)."""
        whole = self._solved(np.where(self.held[:, None], 0.0, right))
        if not self.held.any():
            return whole
        whole -= self._columns @ np.linalg.solve(self._columns[self.held], whole[self.held])
        whole[self.held] = 0.0
        return whole

    def variances(self) -> Array:
        """The diagonal of H⁻¹, shape (K,)."""
        vectors, inner = self.spectrum.vectors, 1 / self._stretched
        result: Array = vectors**2 @ inner
        if not self._is_whole:
            result += np.maximum(1 - (vectors**2).sum(axis=1), 0.0) / self.precision
        if self.held.any():
            columns = self._columns
            explained = np.linalg.solve(columns[self.held], columns.T).T
            result -= (columns * explained).sum(axis=1)
            result[self.held] = 0.0
        return result

    def log_determinant(self) -> float:
        """ln|H|."""
        beyond = len(self.held) - len(self.spectrum.values)
        result = float(np.log(self._stretched).sum()) + beyond * float(np.log(self.precision))
        if self.held.any():
            result += float(np.linalg.slogdet(self._columns[self.held])[1])
        return result

    @property
    def _is_whole(self) -> bool:
        return len(self.spectrum.values) == len(self.held)

    @cached_property
    def _stretched(self) -> Array:
        """The eigenvalues of H that are not P, nothing held."""
        stretched: Array = self.spectrum.values / self.noise + self.precision
        return stretched

    @cached_property
    def _columns(self) -> Array:
        """The held classes' columns of H⁻¹, nothing held, shape (K, held)."""
        which = np.flatnonzero(self.held)
        unit = np.zeros((len(self.held), len(which)))
        unit[which, np.arange(len(which))] = 1.0
        return self._solved(unit)

    def _solved(self, right: Array) -> Array:
        """H⁻¹·right, nothing held."""
        vectors = self.spectrum.vectors
        inside = vectors.T @ right
        result: Array = vectors @ (inside / self._stretched[:, None])
        if self._is_whole:
            return result
        beyond = right - vectors @ inside
        beyond -= vectors @ (vectors.T @ beyond)  # once more: what is left of V is rounding
        return result + beyond / self.precision


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
        """Find the minimum over (u, b, c) ≥ 0, shape (K+2,), from that of a similar problem."""
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
