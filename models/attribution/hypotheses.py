"""Who waits: a few hypotheses, each with its evidence.

Classes are ordered by how much more time they have than their calls and rows explain. The first
hypothesis is that all of them compute, the next that the strangest one waits, then the two that are
strangest, and so on. Given one of them everything is normal, and its evidence is in closed form:

    −2·log Z = Σ w·(y − ŷ)²/s² + T'·log s² + |C − prior|² + log|A| − log|prior precision|

with A the matrix of the normal equations and T' the ticks that their inflated noise s² leaves. (D.
MacKay, "Bayesian Interpolation", Neural Computation 4 (1992).) The level θ and the noise settle
under each by itself, so that no wrong one hides behind the level of another.
"""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_ticks import Array
from models.attribution.problem import BASE_SHARE, NOISE_INFLATION, Problem, inflated
from models.attribution.waits import Mask

WAIT_ODDS_CALM, WAIT_ODDS_STRANGE = 0.1, 0.8
"""How probable it is beforehand that a class waits."""
STRANGE_RATIO = 15.0
"""A class with so many times the time that its rows explain is half way to strange."""
LEAST_STRANGE = 5.0
"""A class with less is not suspected."""
LEAST_WORK = 0.002
"""Part of all work time below which it does not matter whether a class waits."""
LEAST_LEFT = 0.02
"""Part of all work time that somebody computes in any case."""
MOST_SUSPECTS = 12
ROUNDS = 2
FIRST_NOISE = 0.05
FREE_TICKS = 0.75
"""Of the ticks, those that are left for the noise."""
LEAST_VARIANCE = 1e-8


@dataclass(frozen=True)
class Verdict:
    """What is to be believed of who computes."""

    computing: Array
    """Probability that each computes, shape (K,)."""
    level: float
    variance: float
    """Of a tick, relative."""

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


def who_waits(problem: Problem) -> Verdict:
    """Weigh the hypotheses by their evidence; nobody computes where there is no work time."""
    idle = problem.work <= 0
    first = _tried(problem, idle, FIRST_NOISE)
    tried = [first]
    if not idle.all():
        waits = idle.copy()
        for suspect in _suspects(problem):
            if problem.strangeness(tried[-1].level)[suspect] < LEAST_STRANGE:
                break
            waits[suspect] = True
            if problem.work[~waits].sum() < LEAST_LEFT:
                break
            tried.append(_tried(problem, waits.copy(), inflated(tried[-1].variance)))
    best = max(tried, key=lambda one: one.evidence)
    weights = np.array([np.exp(one.evidence - best.evidence) for one in tried])
    computing = weights @ np.array([~one.waits for one in tried]) / weights.sum()
    return Verdict(computing, best.level, best.variance)


def _suspects(problem: Problem) -> list[int]:
    """Those who matter, the strangest first."""
    order = np.argsort(-problem.strangeness(1.0), kind="stable")
    return [int(k) for k in order if problem.work[k] > LEAST_WORK][:MOST_SUSPECTS]


def _tried(problem: Problem, waits: Mask, noise: float) -> _Hypothesis:
    """Settle level and noise under a hypothesis, and weigh it."""
    computing, k = (~waits).astype(float), problem.classes
    work = float(computing @ problem.work)
    level = problem.within((1 - BASE_SHARE) / work) if work > 0 else 0.0
    for _ in range(ROUNDS):
        prior = problem.prior(computing, level)
        matrix, vector = problem.normal(prior, noise)
        scale = 1 / np.sqrt(np.diag(matrix))
        matrix = matrix * scale[:, None] * scale
        mean = np.linalg.solve(matrix, vector * scale) * scale
        square = problem.moments.residual_square(mean)
        variance = max(square / (FREE_TICKS * problem.moments.ticks), LEAST_VARIANCE)
        noise = inflated(variance)
        level = problem.within(float(computing @ mean[:k]) / work) if work > 0 else 0.0
    log_det = float(np.linalg.slogdet(matrix)[1] - 2 * np.log(scale).sum())
    loss = square / noise + problem.moments.ticks / NOISE_INFLATION * np.log(noise)
    loss += problem.disbelief(prior, mean) + log_det - float(np.log(prior.precision).sum())
    believed = _believed_beforehand(problem, waits, level)
    return _Hypothesis(waits, believed - 0.5 * float(loss), level, variance)


def _believed_beforehand(problem: Problem, waits: Mask, level: float) -> float:
    """Log of how probable a hypothesis is before the data: the strange are suspected."""
    ratio = np.minimum(problem.strangeness(level) / STRANGE_RATIO, 1e6)
    odds = WAIT_ODDS_CALM + (WAIT_ODDS_STRANGE - WAIT_ODDS_CALM) * (1 - 1 / (1 + ratio**2))
    matters = problem.work > LEAST_WORK
    return float(np.log(np.where(waits, odds, 1 - odds))[matters].sum())
