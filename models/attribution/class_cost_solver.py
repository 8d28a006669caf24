"""Normal equations of one unit cost per class, solved with an eigendecomposition.

The unknowns are (u, b, c): K unit costs relative to ū, the base as a share of Σy, and the mean of
the u. Only the K·K block of the matrix is large: its sums G = VΛV' are decomposed once, from which
the inverse and the determinant of G/s + P·I follow for every noise s and precision P (W. Press et
al., "Numerical Recipes" (3rd ed.), 15.4 and 2.7). b and c are a border of two rows, eliminated by
Schur's complement.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.arrays import Array, Mask
from models.attribution.nnls import solve_by_pivoting
from models.numerics import NEGLIGIBLE, ROUNDING


@dataclass(frozen=True)
class Spectrum:
    """The decomposition G = VΛV' for K classes; eigenvalues beyond the r that are kept are 0."""

    values: Array
    """Λ, shape (r,), at least 0."""
    vectors: Array
    """V, orthonormal columns, shape (K, r)."""

    @classmethod
    def of_gram(cls, gram: Array) -> "Spectrum":
        """Decompose G, shape (K, K)."""
        values, vectors = np.linalg.eigh(gram)
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def of_rows(cls, rows: Array) -> "Spectrum":
        """Decompose X'X, X of shape (T, K); if T is less than K, at a cost of T·T·K."""
        if len(rows) >= rows.shape[1]:
            return cls.of_gram(rows.T @ rows)
        basis, triangle = np.linalg.qr(rows.T)
        reduced = cls.of_gram(triangle @ triangle.T)
        return cls(reduced.values, basis @ reduced.vectors)

    def product(self, x: Array) -> Array:
        """Return G·x, shape (K,)."""
        result: Array = self.vectors @ (self.values * (x @ self.vectors))
        return result

    @cached_property
    def squares(self) -> Array:
        """The squares of V's elements, shape (K, r)."""
        squares: Array = self.vectors**2
        return squares

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G, shape (K,)."""
        diagonal: Array = self.squares @ self.values
        return diagonal


@dataclass(frozen=True)
class Ridge:
    """The matrix H = G/s + P·I without the classes `held`, for which results are 0."""

    spectrum: Spectrum
    noise: float
    precision: float
    held: Mask
    """Shape (K,)."""

    def solve(self, right: Array) -> Array:
        """Return H⁻¹·right, shape (K, M)."""
        solution = self._solve_whole(np.where(self.held[:, None], 0.0, right))
        if not self.held.any():
            return solution
        solution -= self._held_columns @ np.linalg.solve(
            self._held_columns[self.held], solution[self.held]
        )
        solution[self.held] = 0.0
        return solution

    def variances(self) -> Array:
        """Return the diagonal of H⁻¹, shape (K,)."""
        squares = self.spectrum.squares
        result: Array = squares @ (1 / self._eigenvalues)
        if not self._has_all_eigenvalues:
            result += np.maximum(1 - squares.sum(axis=1), 0.0) / self.precision
        if self.held.any():
            columns = self._held_columns
            explained = np.linalg.solve(columns[self.held], columns.T).T
            result -= (columns * explained).sum(axis=1)
            result[self.held] = 0.0
        return result

    def log_determinant(self) -> float:
        """Return ln|H|."""
        dropped = len(self.held) - len(self.spectrum.values)
        result = float(np.log(self._eigenvalues).sum()) + dropped * float(np.log(self.precision))
        if self.held.any():
            result += float(np.linalg.slogdet(self._held_columns[self.held])[1])
        return result

    @property
    def _has_all_eigenvalues(self) -> bool:
        return len(self.spectrum.values) == len(self.held)

    @cached_property
    def _eigenvalues(self) -> Array:
        """The eigenvalues of the whole H, nothing held, other than those that are P."""
        stretched: Array = self.spectrum.values / self.noise + self.precision
        return stretched

    @cached_property
    def _held_columns(self) -> Array:
        """The columns of the held classes in the inverse of the whole H, shape (K, held)."""
        which = np.flatnonzero(self.held)
        unit = np.zeros((len(self.held), len(which)))
        unit[which, np.arange(len(which))] = 1.0
        return self._solve_whole(unit)

    def _solve_whole(self, right: Array) -> Array:
        """Return H⁻¹·right of the whole H, nothing held, shape (K, M)."""
        vectors = self.spectrum.vectors
        coordinates = vectors.T @ right
        result: Array = vectors @ (coordinates / self._eigenvalues[:, None])
        if self._has_all_eigenvalues:
            return result
        orthogonal = right - vectors @ coordinates
        orthogonal -= vectors @ (vectors.T @ orthogonal)  # again: rounding left a part of it
        return result + orthogonal / self.precision


@dataclass(frozen=True)
class UnitCostProblem:
    """Weighted sums over intervals, of y in units of its total and of the K active classes."""

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

    def equations(self, tau: float, noise: float) -> "UnitCostEquations":
        """Set up the normal equations for a prior strength τ and the variance of an interval."""
        return UnitCostEquations(self, 1 / tau**2, noise)

    def residual_square(self, coefficients: Array) -> float:
        """Compute Σ w·(y − ŷ)² for these (u, b), shape (K+1,)."""
        u, b = coefficients[:-1], float(coefficients[-1])
        fitted = u @ self.spectrum.product(u) + 2 * b * (u @ self.border) + b**2 * self.corner
        return max(float(self.square - 2 * coefficients @ self.projection + fitted), 0.0)


@dataclass(frozen=True)
class UnitCostEquations:
    """The equations M·(u, b, c) = v for one prior strength and noise."""

    problem: UnitCostProblem
    precision: float
    noise: float

    @cached_property
    def sides(self) -> Array:
        """The elements of M in the rows of the classes and the columns of b and c, shape (K, 2)."""
        common = np.full(self.problem.classes, -self.precision)
        return np.column_stack((self.problem.border / self.noise, common))

    @cached_property
    def corner(self) -> Array:
        """The elements of M in the rows and columns of b and c, shape (2, 2)."""
        spread = self.problem.base_spread
        base_precision = NEGLIGIBLE if spread is None else 1 / spread**2
        mean_precision = self.problem.classes * self.precision * (1 + NEGLIGIBLE) + NEGLIGIBLE
        return np.diag([self.problem.corner / self.noise + base_precision, mean_precision])

    @cached_property
    def vector(self) -> Array:
        """The right-hand side v, shape (K+2,)."""
        return np.append(self.problem.projection / self.noise, 0.0)

    def restricted_to(self, free: Mask) -> "RestrictedSolution":
        """Solve for the unknowns that are free, shape (K+2,), with the others held at 0."""
        ridge = Ridge(self.problem.spectrum, self.noise, self.precision, ~free[:-2])
        return RestrictedSolution(self, ridge, free[-2:])

    def non_negative_minimum(self, start: Array) -> tuple[Array, "RestrictedSolution"]:
        """Find the minimum over (u, b, c) ≥ 0, shape (K+2,); `start` is a similar problem's.

        Also return the solution with the others held that it is.
        """
        diagonal = self.problem.spectrum.diagonal / self.noise + self.precision
        scale = np.sqrt(np.append(diagonal, np.diag(self.corner)))
        tolerance = ROUNDING * float(np.abs(self.vector / scale).max())
        tried: list[RestrictedSolution] = []

        def solve(free: Mask) -> Array:
            tried[:] = [self.restricted_to(free)]
            return tried[0].solution()

        def slope(x: Array) -> Array:
            result: Array = (self.product(x) - self.vector) / scale
            return result

        minimum = solve_by_pivoting(start > 0, solve, slope, tolerance)
        return np.maximum(minimum, 0.0), tried[0]

    def product(self, x: Array) -> Array:
        """Return M·x, shape (K+2,)."""
        u, base_and_mean = x[:-2], x[-2:]
        classes = self.problem.spectrum.product(u) / self.noise + self.precision * u
        return np.append(
            classes + self.sides @ base_and_mean, u @ self.sides + self.corner @ base_and_mean
        )


@dataclass(frozen=True)
class RestrictedSolution:
    """The solution of the equations with some unknowns held at 0."""

    equations: UnitCostEquations
    ridge: Ridge
    free_border: Mask
    """Mask of those of b and c that are free, shape (2,)."""

    def solution(self) -> Array:
        """Return (u, b, c), shape (K+2,), 0 where held."""
        vector, sides = self.equations.vector, self._free_sides
        without_border = self._solved_columns[:, 0]
        ends = np.zeros(2)
        ends[self.free_border] = np.linalg.solve(
            self._schur_complement, vector[-2:][self.free_border] - without_border @ sides
        )
        return np.append(without_border - self._solved_border @ ends[self.free_border], ends)

    def variances(self) -> Array:
        """Return the diagonal of M⁻¹, shape (K+2,), 0 where held."""
        inverse = np.linalg.inv(self._schur_complement)
        from_border = ((self._solved_border @ inverse) * self._solved_border).sum(axis=1)
        ends = np.zeros(2)
        ends[self.free_border] = np.diag(inverse)
        return np.append(self.ridge.variances() + from_border, ends)

    def log_determinant(self) -> float:
        """Return ln|M|."""
        return self.ridge.log_determinant() + float(np.linalg.slogdet(self._schur_complement)[1])

    @cached_property
    def _free_sides(self) -> Array:
        """The columns of b and c that are free, in the rows of the classes, shape (K, free)."""
        return self.equations.sides[:, self.free_border]

    @cached_property
    def _solved_columns(self) -> Array:
        """H⁻¹ times the right-hand side and times `_free_sides`, shape (K, 1 + free)."""
        return self.ridge.solve(np.column_stack((self.equations.vector[:-2], self._free_sides)))

    @property
    def _solved_border(self) -> Array:
        """H⁻¹ times `_free_sides`, shape (K, free)."""
        return self._solved_columns[:, 1:]

    @cached_property
    def _schur_complement(self) -> Array:
        free = self.free_border
        corner = self.equations.corner[np.ix_(free, free)]
        result: Array = corner - self._free_sides.T @ self._solved_border
        return result
