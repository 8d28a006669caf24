"""Normal equations of one unit cost per class, solved with an eigendecomposition.

The unknowns are (u, b, c): K unit costs relative to ū, the base as a share of Σy, and the mean of
the u. Only the K·K block of the matrix is large: its sums G = VΛV' are decomposed once, from which
the inverse and the determinant of G/s + P·I follow for every noise s and precision P (W. Press et
al., "Numerical Recipes" (3rd ed.), 15.4 and 2.7). b and c are a border of two rows, eliminated by
Schur's complement.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log, prod
from typing import NamedTuple

import numpy as np

from models.arrays import Array, Mask
from models.attribution.nnls import solve_by_pivoting
from models.numerics import NEGLIGIBLE, ROUNDING


class SplitColumns(NamedTuple):
    """M columns of K classes, split into a sum of eigenvectors and the rest."""

    coordinates: Array
    """The factors of the r eigenvectors, shape (r, M)."""
    rest: Array | None
    """What is orthogonal to all eigenvectors, shape (K, M); None if there are K of them."""


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

    @property
    def dropped(self) -> int:
        """How many eigenvalues are not kept, K − r."""
        return len(self.vectors) - len(self.values)

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G, shape (K,)."""
        result: Array = self.squared_vectors @ self.values
        return result

    @cached_property
    def squared_vectors(self) -> Array:
        """The squares of the elements of V, shape (K, r)."""
        result: Array = self.vectors**2
        return result

    def product(self, x: Array) -> Array:
        """Return G·x, shape (K,)."""
        result: Array = self.vectors @ (self.values * (x @ self.vectors))
        return result

    def split(self, columns: Array) -> SplitColumns:
        """Split columns, shape (K, M)."""
        coordinates = self.vectors.T @ columns
        if not self.dropped:
            return SplitColumns(coordinates, None)
        rest = columns - self.vectors @ coordinates
        rest -= self.vectors @ (self.vectors.T @ rest)  # again: rounding left a part of it
        return SplitColumns(coordinates, rest)

    def split_unit_vectors(self, which: Mask) -> SplitColumns:
        """Split the unit vectors of some classes, a mask of shape (K,)."""
        if not self.dropped:
            return SplitColumns(self.vectors[which].T, None)
        indices = np.flatnonzero(which)
        unit = np.zeros((len(which), len(indices)))
        unit[indices, np.arange(len(indices))] = 1.0
        return self.split(unit)


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

    @cached_property
    def columns(self) -> Array:
        """The classes' Σ w·x·y and Σ w·x·Δt, and ones, shape (K, 3).

        Up to factors they are the right-hand side and the columns of b and c in all equations.
        """
        return np.column_stack((self.projection[:-1], self.border, np.ones(self.classes)))

    @cached_property
    def split_columns(self) -> SplitColumns:
        """The `columns`, split."""
        return self.spectrum.split(self.columns)

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
    """The equations M·(u, b, c) = v for one prior strength and noise.

    The block of M for the classes is H = G/s + P·I, for the noise s and the precision P.
    """

    problem: UnitCostProblem
    precision: float
    noise: float

    @cached_property
    def column_factors(self) -> Array:
        """The factors of the problem's `columns` in these equations, shape (3,)."""
        return np.array([1 / self.noise, 1 / self.noise, -self.precision])

    @cached_property
    def sides(self) -> Array:
        """The elements of M in the rows of the classes and the columns of b and c, shape (K, 2)."""
        sides: Array = self.problem.columns[:, 1:] * self.column_factors[1:]
        return sides

    @cached_property
    def corner(self) -> Array:
        """The elements of M in the rows and columns of b and c, shape (2, 2)."""
        spread = self.problem.base_spread
        base_precision = NEGLIGIBLE if spread is None else 1 / spread**2
        mean_precision = self.problem.classes * self.precision * (1 + NEGLIGIBLE) + NEGLIGIBLE
        base = self.problem.corner / self.noise + base_precision
        return np.array([[base, 0.0], [0.0, mean_precision]])

    @cached_property
    def vector(self) -> Array:
        """The right-hand side v, shape (K+2,)."""
        return np.append(self.problem.projection / self.noise, 0.0)

    @cached_property
    def eigenvalues(self) -> Array:
        """The eigenvalues of H other than those that are P, shape (r,)."""
        stretched: Array = self.problem.spectrum.values / self.noise + self.precision
        return stretched

    def restricted_to(self, free: Mask) -> "RestrictedSolution":
        """Solve for the unknowns that are free, shape (K+2,), with the others held at 0."""
        held, free_border = ~free[:-2], free[-2:]
        solved = self._inverse_times(self.problem.split_columns) * self.column_factors
        held_columns = None
        if np.count_nonzero(held):
            held_columns = self._inverse_times(self.problem.spectrum.split_unit_vectors(held))
            solved -= held_columns @ np.linalg.solve(held_columns[held], solved[held])
            solved[held] = 0.0
        products = self.sides.T @ solved
        border_inverse, border_determinant = _inverse_of_free(
            self.corner - products[:, 1:], free_border
        )
        ends = border_inverse @ (self.vector[-2:] - products[:, 0])
        return RestrictedSolution(
            equations=self,
            held=held,
            held_columns=held_columns,
            solved_sides=solved[:, 1:],
            border_inverse=border_inverse,
            border_determinant=border_determinant,
            solution=np.concatenate((solved[:, 0] - solved[:, 1:] @ ends, ends)),
        )

    def non_negative_minimum(self, start: Array) -> "RestrictedSolution":
        """Find the minimum over (u, b, c) ≥ 0, shape (K+2,); `start` is a similar problem's."""
        diagonal = self.problem.spectrum.diagonal / self.noise + self.precision
        scale = np.sqrt(np.concatenate((diagonal, self.corner.diagonal())))
        tolerance = ROUNDING * float(np.abs(self.vector / scale).max())
        return solve_by_pivoting(
            start > 0,
            self.restricted_to,
            lambda found: (self.product(found.solution) - self.vector) / scale,
            tolerance,
        )

    def product(self, x: Array) -> Array:
        """Return M·x, shape (K+2,)."""
        u, base_and_mean = x[:-2], x[-2:]
        classes = self.problem.spectrum.product(u) / self.noise + self.precision * u
        return np.concatenate(
            (classes + self.sides @ base_and_mean, u @ self.sides + self.corner @ base_and_mean)
        )

    def _inverse_times(self, columns: SplitColumns) -> Array:
        """Return H⁻¹ times the columns, shape (K, M)."""
        result: Array = self.problem.spectrum.vectors @ (
            columns.coordinates / self.eigenvalues[:, None]
        )
        return result if columns.rest is None else result + columns.rest / self.precision


@dataclass(frozen=True)
class RestrictedSolution:
    """The solution of the equations with some unknowns held at 0."""

    equations: UnitCostEquations
    held: Mask
    """The classes that are held, shape (K,)."""
    held_columns: Array | None
    """Their columns in H⁻¹, shape (K, held); None if there are none."""
    solved_sides: Array
    """The inverse of H without them, times the columns of b and c, shape (K, 2)."""
    border_inverse: Array
    """The block of M⁻¹ for b and c, shape (2, 2), 0 where held."""
    border_determinant: float
    """|M|/|H|, the determinant of Schur's complement."""
    solution: Array
    """(u, b, c), shape (K+2,), 0 where held."""

    def variances(self) -> Array:
        """Return the diagonal of M⁻¹, shape (K+2,), 0 where held."""
        from_border = ((self.solved_sides @ self.border_inverse) * self.solved_sides).sum(axis=1)
        of_classes = self._class_variances() + from_border
        return np.concatenate((of_classes, self.border_inverse.diagonal()))

    def log_determinant(self) -> float:
        """Return ln|M|, of the free unknowns."""
        equations = self.equations
        result = float(np.log(equations.eigenvalues).sum())
        result += equations.problem.spectrum.dropped * float(np.log(equations.precision))
        if self.held_columns is not None:
            result += float(np.linalg.slogdet(self.held_columns[self.held])[1])
        return result + log(abs(self.border_determinant))  # below 0 by rounding alone

    def _class_variances(self) -> Array:
        """Return the diagonal of the inverse of H without the held classes, shape (K,)."""
        spectrum = self.equations.problem.spectrum
        result: Array = spectrum.squared_vectors @ (1 / self.equations.eigenvalues)
        if spectrum.dropped:
            outside = np.maximum(1 - spectrum.squared_vectors.sum(axis=1), 0.0)
            result += outside / self.equations.precision
        if self.held_columns is not None:
            explained = np.linalg.solve(self.held_columns[self.held], self.held_columns.T).T
            result -= (self.held_columns * explained).sum(axis=1)
            result[self.held] = 0.0
        return result


def _inverse_of_free(matrix: Array, free: Mask) -> tuple[Array, float]:
    """Return the inverse of the rows and columns that are free, and their determinant.

    The matrix, shape (2, 2), is symmetric; the inverse is 0 where held. It is written out, since
    numpy's takes several times as long.
    """
    (a, b), (_, d) = matrix.tolist()
    if np.count_nonzero(free) == 2:
        determinant = a * d - b * b
        return np.array([[d, -b], [-b, a]]) / determinant, determinant
    diagonal = list(zip((a, d), free, strict=True))
    inverse = np.diag([1 / element if is_free else 0.0 for element, is_free in diagonal])
    return inverse, prod(element for element, is_free in diagonal if is_free)
