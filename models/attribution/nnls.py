"""Non-negative least squares, from the normal equations alone."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.numerics import NEGLIGIBLE, ROUNDING, TINY

MAX_BLOCK_EXCHANGES = 3
"""How often all wrong unknowns are exchanged at once without progress, before one at a time is."""
MAX_ITERATIONS = 500


class RestrictedMinimum(Protocol):
    """A minimum with some unknowns held at 0."""

    @property
    def solution(self) -> Array:
        """The unknowns, shape (K,), 0 where held."""
        ...


Minimum = TypeVar("Minimum", bound=RestrictedMinimum)


class _Unknowns(NamedTuple):
    solution: Array


def minimise_non_negative(matrix: Array, vector: Array, start: Array | None = None) -> Array:
    """Minimise ½·x'Mx − v'x over x ≥ 0 for a positive definite M, shapes (K, K) and (K,).

    `start` may be the solution of a similar problem: what is 0 there is tried as 0 first.
    """
    scale = 1 / np.sqrt(np.diag(matrix))
    m, v = matrix * scale[:, None] * scale, vector * scale
    tolerance = ROUNDING * max(float(np.abs(v).max(initial=0.0)), TINY)

    def solve(free: Mask) -> _Unknowns:
        x = np.zeros(len(v))
        x[free] = np.linalg.solve(m[np.ix_(free, free)], v[free])
        return _Unknowns(x)

    free = v > 0 if start is None else start > 0
    found = solve_by_pivoting(free, solve, lambda found: m @ found.solution - v, tolerance)
    return np.maximum(found.solution, 0.0) * scale


def solve_by_pivoting(
    free: Mask,
    solve: Callable[[Mask], Minimum],
    slope: Callable[[Minimum], Array],
    tolerance: float,
) -> Minimum:
    """Find which of K unknowns are above 0, and return the minimum with the others held at 0.

    `solve` returns the minimum with all but the free unknowns held at 0, `slope` the gradient
    there, shape (K,); an unknown stays at 0 if its slope is above −`tolerance`.

    Block principal pivoting: J. Kim, H. Park, "Fast Nonnegative Matrix Factorization", SIAM J.
    Sci. Comput. 33 (2011), algorithm 2, with the backup rule of Júdice and Pires.
    """
    fewest, exchanges_left = len(free) + 1, MAX_BLOCK_EXCHANGES
    found = solve(free)
    for _ in range(MAX_ITERATIONS):
        wrong = free & (found.solution < 0)
        if np.count_nonzero(free) < len(free):
            wrong |= ~free & (slope(found) < -tolerance)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            break
        if count < fewest:
            fewest, exchanges_left = count, MAX_BLOCK_EXCHANGES
        elif exchanges_left:
            exchanges_left -= 1
        else:
            wrong &= np.arange(len(free)) == np.flatnonzero(wrong)[-1]
        free = free ^ wrong
        found = solve(free)
    return found


def fix_unknowns(matrix: Array, vector: Array, which: NDArray[np.intp], values: Array) -> None:
    """Fix the unknowns `which` of normal equations at their values, in place.

    The matrix has shape (K, K), the vector and all values (K,).
    """
    precision = matrix[which, which] / NEGLIGIBLE  # far more certain than before
    matrix[which, which] += precision
    vector[which] += precision * values[which]
