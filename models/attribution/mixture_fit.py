"""What each class uses, learnt from how the total moves with calls and rows.

y_t = b·Δt + Σ_k C_k·g_kt + noise, g_kt the part of class k's priced calls and rows (`prices`) that
fell into tick t: C_k is what class k used in all. Two priors about every C_k compete, and the
data decides:

- it computes: C_k ~ N(θ·W_k, (.3·θ·W_k)²), W_k its work time, θ the same for all and unknown;
- it waits: C_k ~ N(P_k, (2·P_k)²), P_k its calls and rows at everybody's prices.

A mixture of two normals per coefficient: E. George, R. McCulloch, "Variable Selection via Gibbs
Sampling", JASA 88 (1993). Who waits is found among few hypotheses (`hypotheses`); where none is
certain the precisions of both priors are weighed by their probabilities, as in a mean field.
"""

import numpy as np

from models.attribution.class_intervals import Array
from models.attribution.nnls import hold, minimise_non_negative
from models.attribution.normal_equations import FittedMixture, Priors, Problem
from models.attribution.sufficient_statistics import Moments
from models.attribution.variable_selection import select_waiting


def fit_mixture(moments: Moments, priors: Priors) -> FittedMixture:
    """Weigh both priors by the moments of regressors that are by_size per tick; see the module."""
    total = moments.y_total
    if total <= 0 or not (priors.by_size > 0).any():
        return FittedMixture.nothing(len(priors.by_size), total, moments.ticks)
    problem = Problem.of(moments, priors)
    found = select_waiting(problem)
    k = problem.classes
    matrix, vector = problem.normal(problem.prior(found.computing, found.level), found.noise)
    mean = _bounded(problem, matrix, vector)
    used = float(found.computing @ mean[:k])
    worked = float(found.computing @ problem.work)
    level = problem.within(used / worked) if worked > 0 else 0.0
    return FittedMixture(
        totals=mean[:k] * total,
        base=float(mean[k]) * total,
        variances=_variances(matrix)[:k] * total**2,
        computing=found.computing,
        level=None if priors.work is None else level * total / problem.work_unit,
        noise=float(np.sqrt(found.variance)),
        ticks=moments.ticks,
    )


def _bounded(problem: Problem, matrix: Array, vector: Array) -> Array:
    """Find the mode under C, b ≥ 0 and C within what is possible; both are changed."""
    free = minimise_non_negative(matrix, vector)
    over = np.flatnonzero(free[: problem.classes] > problem.most)
    if not len(over):
        return free
    hold(matrix, vector, over, problem.most)
    return minimise_non_negative(matrix, vector, free)


def _variances(matrix: Array) -> Array:
    """The diagonal of the inverse."""
    scale = 1 / np.sqrt(np.diag(matrix))
    answer: Array = np.diag(np.linalg.inv(matrix * scale[:, None] * scale)) * scale**2
    return answer
