"""What each class uses, inferred from how the total moves with calls and rows.

y_t = b·Δt + Σ_k C_k·g_kt + noise, g_kt the part of class k's calls and rows at their unit costs
(`shared_unit_costs`) that fell into interval t: C_k is what class k used in all. Two priors about
each C_k compete, and the data decides:

- it computes: C_k ~ N(θ·W_k, (0.3·θ·W_k)²), W_k its work time, θ the same for all and unknown;
- it waits: C_k ~ N(P_k, (2·P_k)²), P_k its calls and rows at the common unit costs.

A mixture of two normals per coefficient: E. George, R. McCulloch, "Variable Selection via Gibbs
Sampling", JASA 88 (1993). Which classes wait is found among few hypotheses; where none is certain
the precisions of both priors are weighed by their probabilities, as in a mean field.

At first all classes are taken to compute. Then one after the other changes sides, each time the one
that makes the whole most probable, for as long as it does. Given which wait everything is normal,
and the evidence is in closed form:

    −2·log Z = Σ w·(y − ŷ)²/s² + T'·log s² + |C − prior|² + log|A| − log|prior precision|

with A the matrix of the normal equations and T' the intervals that inflated noise s² leaves. (D.
MacKay, "Bayesian Interpolation", Neural Computation 4 (1992).) The level θ and the noise settle
under each by itself, so that no wrong one hides behind the level of another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.attribution.class_cost_priors import (
    BASE_SHARE,
    MIN_FREE_SHARE,
    NOISE_ITERATIONS,
    TYPICAL_NOISE,
    FittedMixture,
    Priors,
    Problem,
    inflated,
)
from models.attribution.class_time_series import Array, Mask
from models.attribution.nnls import hold, minimise_non_negative
from models.attribution.sufficient_statistics import MIN_SHARE, Moments
from models.numerics import NEGLIGIBLE

BASE_WAIT_PRIOR = 0.1
WAIT_PRIOR_STEPS = ((15.0, 0.7), (60.0, 0.19))
"""Prior probability that a class waits: `BASE_WAIT_PRIOR`, and more for one with more time than its
rows explain: (ratio of the times at which half of the step is reached, height of the step)."""
MIN_WAIT_RATIO = 5.0
"""A class with at least this ratio may wait; one below it computes."""
NEGLIGIBLE_WORK_SHARE = 0.002
"""Share of the computing classes' work time below which a class may count as either."""
MAX_CANDIDATES = 12
"""Classes that are suspected at once, and that change sides one after the other."""


def fit_mixture(moments: Moments, priors: Priors) -> FittedMixture:
    """Weigh both priors by moments of regressors that are by_size per interval; see the module."""
    total = moments.y_total
    if total <= 0 or not (priors.by_size > 0).any():
        return FittedMixture.nothing(len(priors.by_size), total, moments.intervals)
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
        intervals=moments.intervals,
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
    result: Array = np.diag(np.linalg.inv(matrix * scale[:, None] * scale)) * scale**2
    return result


@dataclass(frozen=True)
class WaitSelection:
    """Which classes compute, and the level and noise of that hypothesis."""

    computing: Array
    """Probability that each computes, shape (K,)."""
    level: float
    variance: float
    """Of an interval, relative."""

    @property
    def noise(self) -> float:
        """The variance, inflated."""
        return inflated(self.variance)


@dataclass(frozen=True)
class _Hypothesis:
    waits: Mask
    evidence: float
    level: float
    variance: float


def select_waiting(problem: Problem) -> WaitSelection:
    """Find the most probable hypothesis, and weigh it with those beside it, each once."""
    best = _tried(problem, problem.work <= 0, TYPICAL_NOISE)
    seen = {best.waits.tobytes(): best}
    for _ in range(MAX_CANDIDATES):
        noise = inflated(best.variance, problem.inflation)
        beside = [_tried(problem, waits, noise) for waits in _beside(problem, best)]
        if not beside:
            break
        likely = max(beside, key=lambda one: one.evidence)
        if likely.evidence <= best.evidence:
            seen = {one.waits.tobytes(): one for one in beside} | seen
            break
        seen, best = seen | {likely.waits.tobytes(): likely}, likely
    tried = seen.values()
    weights = np.array([np.exp(min(one.evidence - best.evidence, 0.0)) for one in tried])
    computing = weights @ np.array([~one.waits for one in tried]) / weights.sum()
    return WaitSelection(computing, best.level, best.variance)


def _beside(problem: Problem, known: _Hypothesis) -> Iterator[Mask]:
    """The same with one class on the other side: one that matters, and may be there."""
    work, ratio = problem.work, problem.unexplained_time_ratio(known.level)
    left = float(work[~known.waits].sum())
    suspected = (
        (ratio > MIN_WAIT_RATIO) & (work > NEGLIGIBLE_WORK_SHARE * left) & (work < left - MIN_SHARE)
    )
    changes = np.where(known.waits, work > 0, suspected)
    order = [k for k in np.argsort(-work, kind="stable") if changes[k]]
    for k in order[:MAX_CANDIDATES]:
        waits = known.waits.copy()
        waits[k] = not waits[k]
        yield waits


def _tried(problem: Problem, waits: Mask, noise: float) -> _Hypothesis:
    """Settle level and noise under a hypothesis, and weigh it."""
    computing, k = (~waits).astype(float), problem.classes
    work = float(computing @ problem.work)
    level = problem.within((1 - BASE_SHARE) / work) if work > 0 else 0.0
    for _ in range(NOISE_ITERATIONS):
        prior = problem.prior(computing, level)
        matrix, vector = problem.normal(prior, noise)
        scale = 1 / np.sqrt(np.diag(matrix))
        matrix = matrix * scale[:, None] * scale
        mean = np.linalg.solve(matrix, vector * scale) * scale
        square = problem.moments.residual_square(mean)
        variance = max(square / (MIN_FREE_SHARE * problem.moments.intervals), NEGLIGIBLE)
        noise = inflated(variance, problem.inflation)
        level = problem.within(float(computing @ mean[:k]) / work) if work > 0 else 0.0
    log_det = float(np.linalg.slogdet(matrix)[1] - 2 * np.log(scale).sum())
    loss = square / noise + problem.moments.intervals / problem.inflation * np.log(noise)
    loss += problem.prior_penalty(prior, mean) + log_det - float(np.log(prior.precision).sum())
    believed = _believed_beforehand(problem, waits, level)
    return _Hypothesis(waits, believed - 0.5 * float(loss), level, variance)


def _believed_beforehand(problem: Problem, waits: Mask, level: float) -> float:
    """Log of how probable a hypothesis is before the totals: the strange are suspected."""
    ratio = np.minimum(problem.unexplained_time_ratio(level), 1 / NEGLIGIBLE)
    odds = BASE_WAIT_PRIOR + sum(
        more * (1 - 1 / (1 + (ratio / half) ** 2)) for half, more in WAIT_PRIOR_STEPS
    )
    believed = np.log(np.where(waits, odds, 1 - odds)) + np.where(waits, problem.waiting, 0.0)
    return float(believed[problem.work > 0].sum())
