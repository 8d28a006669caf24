"""Linear regression, medians and deviations that a minority of outliers hardly influences.

Iteratively reweighted least squares with Tukey's biweight: P. J. Huber, E. M. Ronchetti, *Robust
Statistics* (2009), chapter 7. Numpy only.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arrays import Array, Mask
from models.numerics import NEGLIGIBLE, TINY, median

TUKEY = 4.685
"""The biweight's constant: 95 % as efficient as least squares where the errors are normal."""
REWEIGHTING_STEPS = 4
MAD_TO_DEVIATION = 1.4826
"""The median absolute deviation of a normal distribution, times this, is its deviation."""
TOTAL_WEIGHT = 60.0
"""All points together count as at most this many, because those of one day are correlated."""
MIN_FREEDOM = 4.0
"""The least degrees of freedom; with fewer, Student's distribution has no usable variance."""


class LinearFit(NamedTuple):
    """A fit y ≈ design·coefficients, with the uncertainty of the coefficients."""

    coefficients: Array
    """Shape (p,)."""
    covariance: Array
    """Shape (p, p)."""
    scale: float
    """The standard deviation of a residual of weight 1."""
    freedom: float
    """Degrees of freedom of the scale: the effective number of points less p."""

    def given(self, index: int, mean: float, deviation: float) -> "LinearFit":
        """Return the fit given that coefficients[index] = mean ± deviation (a Kalman step)."""
        spread = self.covariance[index]
        gain = spread / (spread[index] + deviation * deviation)
        return LinearFit(
            self.coefficients + gain * (mean - self.coefficients[index]),
            self.covariance - gain[:, None] * spread,
            self.scale,
            self.freedom,
        )


def mad(values: Array) -> float:
    """Compute the scaled median absolute deviation of values of any shape."""
    return MAD_TO_DEVIATION * median(np.abs(values - median(values)))


def neighbour_deviation(values: Array, by: Array) -> float:
    """Estimate the deviation of values robustly, by the differences of neighbours in `by`.

    It excludes any smooth dependence on `by`. Both are of shape (points,).
    """
    return mad(np.diff(values[np.argsort(by, kind="stable")])) / float(np.sqrt(2))


def persistence(residuals: Array) -> float:
    """Compute how many neighbouring points count as one: (1+ρ)/(1−ρ), at least 1.

    ρ is the lag-1 correlation. Residuals in the order of time, shape (points,). G. V. Bayley,
    J. M. Hammersley (1946).
    """
    off = residuals - residuals.mean()
    return float(persistence_of(off[1:] @ off[:-1], off @ off))


def medians(values: Array, axis: int = 0) -> Array:
    """Compute medians along an axis, of any shape, ignoring NaN; NaN where all are NaN."""
    ordered, size = np.sort(values, axis=axis), values.shape[axis]
    count = np.sum(np.isfinite(values), axis=axis, keepdims=True)
    if size and count.min(initial=size) == size:
        whole: Array = (ordered.take((size - 1) // 2, axis) + ordered.take(size // 2, axis)) / 2
        return whole
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[axis] - 1), axis)
    middle: Array = np.where(count > 0, (low + high) / 2, np.nan).squeeze(axis)
    return middle


def fit_linear(design: Array, y: Array, weights: Array, noise_floor: float) -> LinearFit:
    """Fit one column y, shape (rows,), on a design of shape (rows, columns); see `fit_columns`."""
    transposed = design.T.copy()
    return _fit_reweighted(
        y[None],
        weights[None],
        noise_floor,
        lambda w: ((transposed * w) @ design)[None],
        lambda wy: wy @ design,
        lambda coefficients: coefficients @ transposed,
    )[0]


def fit_columns(design: Array, y: Array, weights: Array, noise_floor: float) -> list[LinearFit]:
    """Fit each column of y robustly to the same design (points, p), in the order of time.

    y and weights have shape (points, columns). A weight is the inverse of a point's variance, in
    any unit; 0 leaves it out. Residuals of weight 1 are at least as uncertain as `noise_floor`:
    no measurement is exact.
    """
    size, transposed = design.shape[1], design.T.copy()
    products = (transposed[:, None, :] * transposed).reshape(size * size, -1).T
    return _fit_reweighted(
        y.T.copy(),
        weights.T.copy(),
        noise_floor,
        lambda w: (w @ products).reshape(-1, size, size),
        lambda wy: wy @ design,
        lambda coefficients: coefficients @ transposed,
    )


def fit_each(designs: Array, y: Array, weights: Array, noise_floor: float) -> list[LinearFit]:
    """Fit as `fit_columns` does, with a design for each column, shape (columns, points, p)."""
    transposed = designs.transpose(0, 2, 1).copy()
    return _fit_reweighted(
        y.T.copy(),
        weights.T.copy(),
        noise_floor,
        lambda w: (transposed * w[:, None, :]) @ designs,
        lambda wy: (transposed @ wy[:, :, None])[:, :, 0],
        lambda coefficients: (designs @ coefficients[:, :, None])[:, :, 0],
    )


def _fit_reweighted(
    y: Array,
    weights: Array,
    noise_floor: float,
    gram: Callable[[Array], Array],
    moments: Callable[[Array], Array],
    line: Callable[[Array], Array],
) -> list[LinearFit]:
    """Fit the rows of y, alternating: coefficients given weights, weights given residuals.

    y, weights and fitted values have shape (fits, points). gram computes from weights the matrices
    of the normal equations, shape (fits, p, p); moments from weighted rows their right-hand sides,
    shape (fits, p); line from coefficients the fitted values.
    """
    used = weights > 0
    count = used.sum(axis=1)
    unit = weights * (count / np.maximum(weights.sum(axis=1), TINY))[:, None]
    y, root, w = np.where(used, y, 0.0), np.sqrt(unit), unit
    middles, rows = _median_indices_of_last(count, y.shape[1]), np.arange(len(y))
    for step in range(REWEIGHTING_STEPS):
        coefficients, inverse = _solve(gram(w), moments(w * y))
        residuals = (y - line(coefficients)) * root
        if step < REWEIGHTING_STEPS - 1:
            sizes = np.abs(residuals)
            sizes.sort()
            low, high = sizes[rows, middles]
            scale = np.maximum(MAD_TO_DEVIATION / 2 * (low + high), noise_floor)
            off = residuals / (TUKEY * scale)[:, None]
            w = unit * np.square(np.maximum(1 - off * off, 0.0))
    return _fits_of(coefficients, inverse, residuals, w > 0, noise_floor)


def _fits_of(
    coefficients: Array, inverse: Array, residuals: Array, kept: Mask, floor: float
) -> list[LinearFit]:
    """Return each fit with its uncertainty, from the weighted residuals of the points kept.

    Coefficients have shape (fits, p), inverses of the normal equations (fits, p, p), residuals
    (fits, points). Neighbours that are alike count as fewer points.
    """
    count = np.maximum(kept.sum(axis=1), 1)
    residuals = residuals * kept
    squares = (residuals * residuals).sum(axis=1)
    scale = np.maximum(np.sqrt(squares / count), floor)
    products = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1)
    effective = np.minimum(count / persistence_of(products, count * scale**2), TOTAL_WEIGHT)
    covariance = inverse * (scale**2 * count / effective)[:, None, None]
    freedom = np.maximum(effective - coefficients.shape[1], MIN_FREEDOM)
    columns = (scale.tolist(), freedom.tolist())
    return [LinearFit(*each) for each in zip(coefficients, covariance, *columns, strict=True)]


def _median_indices_of_last(count: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Find the two median indices of the last `count` of `size` ordered values, (2, fits).

    The first values are the residuals, 0, of the points that are left out.
    """
    return np.array([size - 1 - count // 2, np.minimum(size - 1 - (count - 1) // 2, size - 1)])


def persistence_of(products: ArrayLike, squares: ArrayLike) -> Array:
    """Compute `persistence` from the sums of neighbours' products and of squares, of any shape."""
    rho = np.minimum(np.maximum(products / np.maximum(squares, TINY), 0.0), 0.95)
    ratio: Array = (1 + rho) / (1 - rho)
    return ratio


def _solve(gram: Array, moments: Array) -> tuple[Array, Array]:
    """Solve the normal equations; a negligible ridge keeps ill-conditioned windows solvable."""
    factor, least = _ridge(gram.shape[1])
    gram *= factor
    gram += least
    inverse = np.linalg.inv(gram)
    coefficients: Array = (inverse @ moments[:, :, None])[:, :, 0]
    return coefficients, np.asarray(inverse, dtype=np.float64)


@cache
def _ridge(size: int) -> tuple[Array, Array]:
    """Return by what matrices of this size are multiplied, and then what is added to them."""
    diagonal = np.eye(size)
    return 1 + NEGLIGIBLE * diagonal, TINY * diagonal
