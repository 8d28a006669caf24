"""Least squares with bounds, from the normal equations alone."""

import numpy as np
from numpy.typing import NDArray

from models.attribution.class_ticks import Array

EXCHANGES = 3
"""How often all classes may change sides at once without progress, before one at a time."""
ROUNDS = 500
HELD = 1e6
"""How many times as sure as before one is of an unknown that is held."""


def minimise_non_negative(matrix: Array, vector: Array, start: Array | None = None) -> Array:
    """Minimise ½·x'Mx − v'x over x ≥ 0 for a positive definite M, shapes (K, K) and (K,).

    `start` may be the solution of a similar problem: what is 0 there is tried as 0 first.

    Block principal pivoting: J. Kim, H. Park, "Fast Nonnegative Matrix Factorization", SIAM J.
    Sci. Comput. 33 (2011), algorithm 2, with the backup rule of Júdice and Pires.
    """
    scale = 1 / np.sqrt(np.diag(matrix))
    m, v = matrix * scale[:, None] * scale, vector * scale
    tolerance = 1e-12 * max(float(np.abs(v).max(initial=0.0)), 1e-300)
    free = v > 0 if start is None else start > 0
    fewest, chances = len(v) + 1, EXCHANGES
    x = np.zeros(len(v))
    for _ in range(ROUNDS):
        x = np.zeros(len(v))
        x[free] = np.linalg.solve(m[np.ix_(free, free)], v[free])
        wrong = (free & (x < 0)) | (~free & (m @ x - v < -tolerance))
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, chances = count, EXCHANGES
        elif chances:
            chances -= 1
        else:
            wrong &= np.arange(len(v)) == np.flatnonzero(wrong)[-1]
        free ^= wrong
    return np.maximum(x, 0.0) * scale


def hold(matrix: Array, vector: Array, which: NDArray[np.intp], values: Array) -> None:
    """Fix some unknowns of normal equations at these values, shape of the vector."""
    precision = HELD * matrix[which, which]
    matrix[which, which] += precision
    vector[which] += precision * values[which]
