"""One unit cost per class, shrunk towards the mean of all, for one column per class.

y_t = b·Δt + Σ_k u_k·x_kt + noise, u ≥ 0, u_k ~ N(c, (τ·ū)²) with ū = Σy/Σx, c and b unknown. The
strength τ is the one with the greatest evidence, by Laplace's method on the classes that are not
at 0: D. MacKay, "Bayesian Interpolation", Neural Computation 4 (1992).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.attribution.class_cost_fit import (
    MIN_FREE_SHARE,
    NOISE_ITERATIONS,
    TYPICAL_NOISE,
    FittedMixture,
)
from models.attribution.class_cost_solver import Spectrum, UnitCostEquations, UnitCostProblem
from models.attribution.sufficient_statistics import INFLATION, Moments

PRIOR_STRENGTHS = (0.03, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
"""τ: from "all classes cost the same" to "each has a cost of its own"."""
MIN_NOISE_VARIANCE = 1e-6
"""Relative variance of an interval's use: a deviation of a tenth of a per cent. Fewer intervals
than classes can be fitted exactly, and equations without noise take ten times as long to solve."""
MAX_EVIDENCE_GAP = 8.0
"""The search ends at a strength so far below the best in ln evidence: later ones are worse."""


@dataclass(frozen=True)
class _Fit:
    """The fit of (u, b, c), in units of ū, Σy and ū, at one strength."""

    equations: UnitCostEquations
    mode: Array
    noise: float
    evidence: float


def fit_class_unit_costs(moments: Moments, base_spread: float | None = None) -> FittedMixture:
    """Fit moments whose regressors are the classes' own columns x; see the module.

    `base_spread` is the standard deviation of the prior of b about 0, as a share of Σy, which
    matters if the load hardly varies; None: no prior.
    """
    x = moments.totals[:-1]
    active = np.flatnonzero(x > 0)
    if moments.y_total <= 0 or not len(active):
        return FittedMixture.without_use(len(x), moments.y_total, moments.intervals)
    scaled, share = moments.scaled(), np.append(x[active] / x.sum(), 1.0)
    kept = np.append(active, len(x))
    gram = scaled.gram[np.ix_(kept, kept)] * share[:, None] * share
    problem = UnitCostProblem(
        spectrum=Spectrum.of_gram(gram[:-1, :-1]),
        border=gram[:-1, -1],
        corner=float(gram[-1, -1]),
        projection=scaled.projection[kept] * share,
        square=scaled.square,
        intervals=moments.intervals,
        base_spread=base_spread,
    )
    return _fitted_mixture(problem, x, moments.y_total)


def fit_unit_costs_by_interval(x: Array, seconds: Array, y: Array, weights: Array) -> FittedMixture:
    """Fit the intervals themselves, shapes (T, K) and (T,), which takes less time if K > T."""
    totals, y_total = x.sum(axis=0), float(y.sum())
    active = np.flatnonzero(totals > 0)
    if y_total <= 0 or not len(active):
        return FittedMixture.without_use(len(totals), y_total, len(y))
    root = np.sqrt(weights * (len(y) / float(weights @ y**2)))
    rows = x[:, active] * (root * (y_total / totals.sum()))[:, None]
    length = seconds * root * (y_total / (seconds.sum() or 1.0))
    problem = UnitCostProblem(
        spectrum=Spectrum.of_rows(rows),
        border=length @ rows,
        corner=float(length @ length),
        projection=np.append((root * y) @ rows, (root * y) @ length),
        square=float(len(y)),
        intervals=len(y),
        base_spread=None,
    )
    return _fitted_mixture(problem, totals, y_total)


def _fitted_mixture(problem: UnitCostProblem, x: Array, y_total: float) -> FittedMixture:
    """Return the fit of the strength with the most evidence, shape (K,), units of y."""
    best = max(_fits(problem), key=lambda fit: fit.evidence)
    active = x > 0
    unit = x[active] / x.sum() * y_total
    totals, variances = np.zeros(len(x)), np.zeros(len(x))
    nothing_held = np.ones(len(best.mode), dtype=np.bool_)
    spread = best.equations.restricted_to(nothing_held).variances()
    totals[active] = best.mode[:-2] * unit
    variances[active] = spread[:-2] * INFLATION * unit**2
    return FittedMixture(
        totals=totals,
        base=float(best.mode[-2]) * y_total,
        variances=variances,
        computing=np.ones(len(x)),
        level=float(best.mode[-1] * y_total / x.sum()),
        intervals=problem.intervals,
    )


def _fits(problem: UnitCostProblem) -> Iterator[_Fit]:
    """Yield the fit at each strength, each started from the previous one."""
    fit: _Fit | None = None
    best = -np.inf
    for tau in PRIOR_STRENGTHS:
        fit = _fit(problem, tau, fit)
        yield fit
        best = max(best, fit.evidence)
        if fit.evidence < best - MAX_EVIDENCE_GAP:
            return


def _fit(problem: UnitCostProblem, tau: float, start: _Fit | None) -> _Fit:
    """Find mode and noise alternately at one strength, starting from another fit."""
    classes, intervals = problem.classes, problem.intervals
    noise = start.noise if start else TYPICAL_NOISE
    mode = start.mode if start else np.ones(classes + 2)
    prior_precision = np.append(np.full(classes, 1 / tau**2), [0.0, classes / tau**2])
    for _ in range(NOISE_ITERATIONS):
        equations = problem.equations(tau, noise)
        minimum = equations.non_negative_minimum(mode)
        mode = np.maximum(minimum.solution, 0.0)
        freedom = float(np.count_nonzero(mode) - minimum.variances() @ prior_precision)
        square = problem.residual_square(mode[:-1])
        noise = square / max(intervals - freedom, MIN_FREE_SHARE * intervals)
        noise = max(noise, MIN_NOISE_VARIANCE)
    penalty = float(((mode[:classes] - mode[-1]) ** 2).sum()) / tau**2
    evidence = -square / noise - intervals * np.log(noise) - penalty - 2 * classes * np.log(tau)
    return _Fit(equations, mode, noise, 0.5 * float(evidence - minimum.log_determinant()))
