"""Estimation of the use of each class from how the total varies with calls and rows.

y_t = b·Δt + Σ_k C_k·g_kt + noise, g_kt the part of class k's calls and rows at their unit costs
(`call_and_row_costs`) that fell into interval t: C_k is the total use of class k. Each C_k has two
competing priors, between which the data decide:

- it computes: C_k ~ N(θ·W_k, (0.3·θ·W_k)²), W_k its work time, θ the same for all and unknown;
- it waits: C_k ~ N(P_k, (2·P_k)²), P_k its calls and rows at the common unit costs.

A mixture of two normals per coefficient: E. George, R. McCulloch, "Variable Selection via Gibbs
Sampling", JASA 88 (1993). Which classes wait is found among few hypotheses; where none is certain
the precisions of both priors are weighted by their probabilities, as in a mean field. A class that
computes with a probability of `CONFIDENCE` has its first prior alone: the second of a class with
few calls and rows is so precise that at a hundredth of the weight it would still decide. Nor is
that precision believed where it decides: the square of the distance to the prior that does not is
added to the variance, with that prior's probability (the law of total variance).

At first all classes are taken to compute. Then one class at a time is reassigned, always the one
that raises the evidence most, as long as one does. Given which classes wait, all distributions are
normal, and the evidence has a closed form:

    −2·log Z = Σ w·(y − ŷ)²/s² + T'·log s² + |C − prior|² + log|A| − log|prior precision|

with A the matrix of the normal equations and T' the number of intervals divided by the inflation of
the noise s². (D. MacKay, "Bayesian Interpolation", Neural Computation 4 (1992).) The level θ and
the noise are fitted under each hypothesis, so that a wrong one does not gain from the level of
another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Array, Mask
from models.attribution.class_cost_fit import (
    BASE_SHARE,
    MIN_FREE_SHARE,
    NOISE_ITERATIONS,
    TYPICAL_NOISE,
    ClassPriors,
    FittedMixture,
    MixtureProblem,
    inflate_variance,
)
from models.attribution.nnls import fix_unknowns, minimise_non_negative
from models.attribution.sufficient_statistics import MIN_SHARE, Moments
from models.numerics import CONFIDENCE, NEGLIGIBLE
from models.shared_constants import UNLIKELY

HALF_WAIT_RATIO = 25.0
"""Prior probability that a class waits: `UNLIKELY`, and more for one with more time than its rows
explain; half of the way to certainty at this ratio of the times. That it computes is `UNLIKELY` at
the least: a function, a regular expression or a hash computes without rows."""
MIN_WAIT_RATIO = 5.0
"""A class may wait if the ratio of its time to what its rows explain is above this; else it
computes."""
MAX_CANDIDATES = 12
"""The most classes that are tried in one step, and the most steps."""


def fit_mixture(moments: Moments, priors: ClassPriors) -> FittedMixture:
    """Fit both priors to moments whose regressors are `by_size` per interval; see the module."""
    total = moments.y_total
    if total <= 0 or not (priors.by_size > 0).any():
        return FittedMixture.without_use(len(priors.by_size), total, moments.intervals)
    problem = MixtureProblem.of(moments, priors)
    selection = select_waiting(problem)
    k, probability = problem.classes, selection.computing
    is_certain = probability >= CONFIDENCE
    computing = np.where(is_certain, 1.0, probability)
    matrix, vector = problem.normal_equations(
        problem.prior(computing, selection.level), selection.noise
    )
    variances = _inverse_diagonal(matrix)[:k]
    mean = _bounded_mode(problem, matrix, vector)
    used, worked = float(computing @ mean[:k]), float(computing @ problem.work)
    level = float(problem.level_of(used, worked))
    by_time = np.minimum(level * problem.work, problem.max_share)
    other = np.where(is_certain, problem.size, by_time)
    doubt = np.where(is_certain, 1 - probability, probability)
    variances += doubt * (other - mean[:k]) ** 2
    return FittedMixture(
        totals=mean[:k] * total,
        base=float(mean[k]) * total,
        variances=variances * total**2,
        computing=probability,
        level=None if priors.work is None else level * total / problem.work_unit,
        intervals=moments.intervals,
    )


def _bounded_mode(problem: MixtureProblem, matrix: Array, vector: Array) -> Array:
    """Find the mode with C, b ≥ 0 and C at most what is possible; may change the equations."""
    mode = minimise_non_negative(matrix, vector)
    over = np.flatnonzero(mode[: problem.classes] > problem.max_share)
    if not len(over):
        return mode
    fix_unknowns(matrix, vector, over, problem.max_share)
    return minimise_non_negative(matrix, vector, mode)


def _inverse_diagonal(matrix: Array) -> Array:
    """Return the diagonal of the inverse."""
    scale = 1 / np.sqrt(np.diag(matrix))
    result: Array = np.diag(np.linalg.inv(matrix * scale[:, None] * scale)) * scale**2
    return result


@dataclass(frozen=True)
class WaitSelection:
    """The probability that each class computes, and level and noise of the best hypothesis."""

    computing: Array
    """Probability that each computes, shape (K,)."""
    level: float
    variance: float
    """Of an interval, relative."""

    @property
    def noise(self) -> float:
        """The variance, inflated."""
        return inflate_variance(self.variance)


@dataclass(frozen=True)
class _Hypothesis:
    waits: Mask
    evidence: float
    level: float
    variance: float


def select_waiting(problem: MixtureProblem) -> WaitSelection:
    """Find the most probable hypothesis, and weigh it with others, each once.

    The others are those that led to it and, if none of them is better, its neighbours.
    """
    [best] = _fit_hypotheses(problem, [problem.work <= 0], TYPICAL_NOISE)
    seen = {best.waits.tobytes(): best}
    for _ in range(MAX_CANDIDATES):
        noise = inflate_variance(best.variance, problem.inflation)
        neighbours = _fit_hypotheses(problem, list(_neighbours(problem, best)), noise)
        if not neighbours:
            break
        best_neighbour = max(neighbours, key=lambda one: one.evidence)
        if best_neighbour.evidence <= best.evidence:
            seen = {one.waits.tobytes(): one for one in neighbours} | seen
            break
        seen, best = seen | {best_neighbour.waits.tobytes(): best_neighbour}, best_neighbour
    tried = seen.values()
    weights = np.array([np.exp(min(one.evidence - best.evidence, 0.0)) for one in tried])
    computing = weights @ np.array([~one.waits for one in tried]) / weights.sum()
    return WaitSelection(computing, best.level, best.variance)


def _neighbours(problem: MixtureProblem, known: _Hypothesis) -> Iterator[Mask]:
    """Yield the neighbours: one class reassigned, if its work time matters and allows it."""
    work, ratio = problem.work, problem.unexplained_time_ratio(known.level)
    computing_work = float(work[~known.waits].sum())
    suspected = (
        (ratio > MIN_WAIT_RATIO)
        & (work > MIN_SHARE * computing_work)
        & (work < computing_work - MIN_SHARE)
    )
    changes = np.where(known.waits, work > 0, suspected)
    order = [k for k in np.argsort(-work, kind="stable") if changes[k]]
    for k in order[:MAX_CANDIDATES]:
        waits = known.waits.copy()
        waits[k] = not waits[k]
        yield waits


def _fit_hypotheses(
    problem: MixtureProblem, masks: Sequence[Mask], noise: float
) -> list[_Hypothesis]:
    """Fit level and noise under each hypothesis, and compute its evidence.

    The masks, shape (K,), mark the classes that wait.
    """
    if not masks:
        return []
    waits, k, intervals = np.array(masks), problem.classes, problem.moments.intervals
    computing = (~waits).astype(float)
    work = computing @ problem.work
    level, noises = problem.level_of(1 - BASE_SHARE, work), np.full(len(waits), noise)
    for _ in range(NOISE_ITERATIONS):
        prior = problem.prior(computing, level)
        matrix, vector = problem.normal_equations(prior, noises)
        scale = 1 / np.sqrt(matrix.diagonal(axis1=1, axis2=2))
        matrix *= scale[:, :, None]
        matrix *= scale[:, None, :]
        mean = np.linalg.solve(matrix, (vector * scale)[:, :, None])[:, :, 0] * scale
        square = problem.moments.residual_square(mean)
        variance = np.maximum(square / (MIN_FREE_SHARE * intervals), NEGLIGIBLE)
        noises = inflate_variance(variance, problem.inflation)
        level = problem.level_of((computing * mean[:, :k]).sum(axis=1), work)
    log_det = np.linalg.slogdet(matrix)[1] - 2 * np.log(scale).sum(axis=1)
    loss = square / noises + intervals / problem.inflation * np.log(noises)
    loss += problem.prior_penalty(prior, mean) + log_det - np.log(prior.precision).sum(axis=1)
    evidence = _log_prior(problem, waits, level) - 0.5 * loss
    columns = (evidence.tolist(), level.tolist(), variance.tolist())
    return [_Hypothesis(*each) for each in zip(waits, *columns, strict=True)]


def _log_prior(problem: MixtureProblem, waits: Mask, level: Array) -> Array:
    """Compute the log priors of hypotheses: classes with unexplained time are likelier to wait.

    waits has shape (hypotheses, K), level and the result (hypotheses,).
    """
    ratio = np.minimum(problem.unexplained_time_ratio(level), 1 / NEGLIGIBLE)
    computes = np.maximum((1 - UNLIKELY) / (1 + (ratio / HALF_WAIT_RATIO) ** 2), UNLIKELY)
    log_probability = np.log(np.where(waits, 1 - computes, computes)) + np.where(
        waits, problem.wait_evidence, 0.0
    )
    log_prior: Array = log_probability[:, problem.work > 0].sum(axis=1)
    return log_prior
