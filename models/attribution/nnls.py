"""Least squares with bounds, from the normal equations alone."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.numerics import NEGLIGIBLE, ROUNDING, TINY

MAX_BLOCK_EXCHANGES = 3
"""How often all wrong unknowns are exchanged at once without progress, before one at a time is."""
MAX_ITERATIONS = 500


def minimise_non_negative(matrix: Array, vector: Array, start: Array | None = None) -> Array:
    """Minimise ½·x'Mx − v'x over x ≥ 0 for a positive definite M, shapes (K, K) and (K,).

    `start` may be the solution of a similar problem: what is 0 there is tried as 0 first.
    """
    scale = 1 / np.sqrt(np.diag(matrix))
    m, v = matrix * scale[:, None] * scale, vector * scale
    tolerance = ROUNDING * max(float(np.abs(v).max(initial=0.0)), TINY)

    def solve(free: Mask) -> Array:
        x = np.zeros(len(v))
        x[free] = np.linalg.solve(m[np.ix_(free, free)], v[free])
        return x

    free = v > 0 if start is None else start > 0
    return np.maximum(solve_by_pivoting(free, solve, lambda x: m @ x - v, tolerance), 0.0) * scale


def solve_by_pivoting(
    free: Mask, solve: Callable[[Mask], Array], slope: Callable[[Array], Array], tolerance: float
) -> Array:
    """Find which unknowns are above 0, and return the minimum, shape (K,).

    `solve` returns the minimum with all but the free unknowns held at 0, `slope` the gradient
    there; an unknown stays at 0 if its slope is above −`tolerance`.

    Block principal pivoting: J. Kim, H. Park, "Fast Nonnegative Matrix Factorization", SIAM J.
    Sci. Comput. 33 (2011), algorithm 2, with the backup rule of Júdice and Pires.
    """
    free = free.copy()
    fewest, exchanges_left = len(free) + 1, MAX_BLOCK_EXCHANGES
    x = np.zeros(len(free))
    for _ in range(MAX_ITERATIONS):
        x = solve(free)
        wrong = (free & (x < 0)) | (~free & (slope(x) < -tolerance))
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, exchanges_left = count, MAX_BLOCK_EXCHANGES
        elif exchanges_left:
            exchanges_left -= 1
        else:
            wrong &= np.arange(len(free)) == np.flatnonzero(wrong)[-1]
        free ^= wrong
    return x


def fix_unknowns(matrix: Array, vector: Array, which: NDArray[np.intp], values: Array) -> None:
    """Fix some unknowns of normal equations at these values, shape of the vector."""
    precision = matrix[which, which] / NEGLIGIBLE  # far more certain than before
    matrix[which, which] += precision
    vector[which] += precision * values[which]
