"""A matrix of sums by its eigenvalues, so that no strength of a prior needs a new inverse.

G = VΛV' is taken apart once; G/s + P·I is then inverted, traced and measured in products of V, for
every noise s and precision P: W. Press et al., "Numerical Recipes" (3rd ed.), 15.4 and 2.7.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.attribution.class_intervals import Array, Mask


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
