"""What each class uses, learnt from how the total moves with calls and rows.

y_t = b·Δt + Σ_k C_k·g_kt + noise, g_kt the part of class k's priced calls and rows (`prices`) that
fell into tick t: C_k is what class k used in all. Two beliefs about every C_k compete, and the
data decides:

- it computes: C_k ~ N(θ·W_k, (.2·θ·W_k)²), W_k its work time, θ the same for all and unknown;
- it waits: C_k ~ N(P_k, (2·P_k)²), P_k its calls and rows at everybody's prices.

A mixture of two normals per coefficient: E. George, R. McCulloch, "Variable Selection via Gibbs
Sampling", JASA 88 (1993). The weights of the two come from the cavity of each class (T. Minka,
"Expectation Propagation", UAI 2001), the noise is re-estimated in turn (D. MacKay, "Bayesian
Interpolation", Neural Computation 4 (1992)).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.attribution.beliefs import Beliefs, Learned
from models.attribution.class_ticks import Array
from models.attribution.moments import Moments
from models.attribution.quadratic import minimise_non_negative

COMPUTE_SPREAD = 0.2
"""Classes that compute differ by this part in their use per second of work time (measured)."""
WAIT_SPREAD = 2.0
"""Prices that all share miss the cost of one class by about this factor."""
BASE_SPREAD = 0.1
"""What no class explains is about this part of the total (measured: .07 to .1)."""
SUM_SPREAD = 0.03
"""Classes and base are the whole: what they use together is Σy, up to this part of it."""
NOISE_INFLATION = 4.0
"""Of the variance: the model is not quite true, and standard errors come out half without it."""
MISFIT = 0.1
"""A relative error of this size per tick is no longer noise: the costs themselves vary, and the
variance is inflated once more."""
LEVEL_RANGE = 2.5
HELD = 1e6
CLEAN = 0.02
WAIT_ODDS_CALM, WAIT_ODDS_STRANGE = 0.1, 0.5
STRANGE_RATIO = 15.0
"""A class with so many times the time that its rows explain is half way to strange."""
LEAST_SPREAD = 1e-4
FIRST_ROUNDS, ROUNDS = 5, 40
SETTLED = 1e-3


@dataclass(frozen=True)
class _State:
    """One round: mean and covariance of (C, b, θ) in shares of Σy, and both beliefs' weights."""

    mean: Array
    covariance: Array
    computing: Array
    noise: float
    """Variance of a tick, inflated."""
    variance: float


def learn(moments: Moments, beliefs: Beliefs) -> Learned:
    """Weigh both beliefs by the moments of regressors that are by_size per tick; see the module."""
    total = moments.y_total
    if total <= 0 or not (beliefs.by_size > 0).any():
        return _nothing(len(beliefs.by_size), total, moments.ticks)
    problem = _Problem.of(moments, beliefs)
    state = problem.settled()
    mean = problem.bounded(state)
    k = problem.classes
    return Learned(
        totals=mean[:k] * total,
        base=float(mean[k]) * total,
        covariance=state.covariance[:k, :k] * total**2,
        computing=state.computing,
        level=None if beliefs.work is None else float(mean[k + 1]) * total / problem.work_unit,
        noise=float(np.sqrt(state.variance)),
        ticks=moments.ticks,
    )


@dataclass(frozen=True)
class _Problem:
    """Everything in shares: of Σy, of Σ work, of each regressor's total."""

    moments: Moments
    size: Array
    most: Array
    work: Array
    work_unit: float
    timed: bool
    levels: tuple[float, float]
    """Within which θ is."""

    @classmethod
    def of(cls, moments: Moments, beliefs: Beliefs) -> "_Problem":
        work = np.zeros_like(beliefs.by_size) if beliefs.work is None else beliefs.work
        unit = float(work.sum()) or 1.0
        size = beliefs.by_size / moments.y_total
        most = np.full_like(size, np.inf) if beliefs.most is None else beliefs.most
        size = np.minimum(size, most / moments.y_total)
        levels = (0.0, np.inf)
        if beliefs.least_level > 0:
            least = beliefs.least_level * unit / moments.y_total
            levels = (least, LEVEL_RANGE * least)
        most = most / moments.y_total
        timed = bool((work > 0).any())
        return cls(moments.scaled(), size, most, work / unit, unit, timed, levels)

    @property
    def classes(self) -> int:
        return len(self.size)

    @property
    def least(self) -> float:
        return LEAST_SPREAD / self.classes

    def settled(self) -> _State:
        """Settle from where calls and rows lead; also from a usual level, where one is known.

        There are several places to settle in: the one that explains the total better is taken.
        """
        first = self._first()
        found = self._settled_from(first)
        if not self.levels[0]:
            return found
        usual = float(np.sqrt(self.levels[0] * self.levels[1]))
        start = self._solved(1 - self._wait_probability(usual), usual, CLEAN)
        return min(found, self._settled_from(start), key=lambda state: state.variance)

    def _settled_from(self, state: _State) -> _State:
        for _ in range(ROUNDS if self.timed else 0):
            weights = self._computing(state)
            new = self._solved(0.5 * (weights + state.computing), self._level(state), state.noise)
            moved = np.abs(new.mean - state.mean).max()
            state = new
            if moved < SETTLED * self.least**0.5:
                break
        return state

    def bounded(self, state: _State) -> Array:
        """Find the mode under C, b, θ ≥ 0."""
        matrix, vector = self._normal(state.computing, self._level(state), state.noise)
        over = np.flatnonzero(state.mean[: self.classes] >= self.most)
        _hold(matrix, vector, np.append(over, self.classes + 1), state.mean)
        return minimise_non_negative(matrix, vector)

    def _first(self) -> _State:
        """Learn from calls and rows alone, so that those who wait cannot set the level."""
        noise = 0.1
        for _ in range(FIRST_ROUNDS):
            state = self._solved(self._never, 0.0, noise)
            noise = state.noise
        if not self.timed:
            return state
        used = np.maximum(state.mean[: self.classes], 1e-3 * self.size)
        timed = self.work > 0
        level = self._within(_weighted_median(used[timed] / self.work[timed], used[timed]))
        mean = np.append(state.mean[:-1], level)
        return replace(state, mean=mean, computing=self._computing(state, level))

    @property
    def _never(self) -> Array:
        return np.zeros(self.classes)

    def _within(self, level: float) -> float:
        return min(max(level, self.levels[0]), self.levels[1])

    def _level(self, state: _State) -> float:
        return max(float(state.mean[-1]), 1e-9)

    def _spreads(self, level: float) -> tuple[Array, Array]:
        computes = np.maximum(COMPUTE_SPREAD * level * self.work, self.least)
        waits = np.minimum(WAIT_SPREAD * self.size, self.most)
        return computes, np.maximum(waits, self.least)

    def _precisions(self, computing: Array, level: float) -> tuple[Array, Array]:
        computes, waits = self._spreads(level)
        return computing / computes**2, (1 - computing) / waits**2

    def _normal(self, computing: Array, level: float, noise: float) -> tuple[Array, Array]:
        """Set up the normal equations of (C, b, θ)."""
        k, diagonal = self.classes, np.arange(self.classes)
        by_time, by_size = self._precisions(computing, level)
        matrix, vector = np.zeros((k + 2, k + 2)), np.zeros(k + 2)
        matrix[: k + 1, : k + 1] = self.moments.gram / noise
        vector[: k + 1] = self.moments.projection / noise
        matrix[: k + 1, : k + 1] += 1 / SUM_SPREAD**2
        vector[: k + 1] += 1 / SUM_SPREAD**2
        matrix[diagonal, diagonal] += by_time + by_size
        vector[:k] += by_size * self.size
        matrix[diagonal, k + 1] = matrix[k + 1, diagonal] = -by_time * self.work
        matrix[k, k] += 1 / BASE_SPREAD**2
        matrix[k + 1, k + 1] = (by_time * self.work**2).sum() * (1 + 1e-9) + 1e-6
        return matrix, vector

    def _solved(self, computing: Array, level: float, noise: float) -> _State:
        """Solve for a state; what would leave its bounds is held there."""
        matrix, vector = self._normal(computing, level, noise)
        mean = _solution(matrix, vector)
        bounded = np.append(np.minimum(mean[:-2], self.most), mean[-2:])
        if level:
            bounded[-1] = self._within(float(bounded[-1]))
        outside = np.flatnonzero(bounded != mean)
        _hold(matrix, vector, outside, bounded)
        return self._state(matrix, vector, computing, level)

    def _state(self, matrix: Array, vector: Array, computing: Array, level: float) -> _State:
        scale = 1 / np.sqrt(np.diag(matrix))
        covariance = np.linalg.inv(matrix * scale[:, None] * scale) * scale[:, None] * scale
        mean = covariance @ vector
        k = self.classes
        prior = sum(self._precisions(computing, level))
        free = float(np.sum(1 - np.diag(covariance)[:k] * prior))
        left = max(self.moments.ticks - free, self.moments.ticks / 4)
        square = self.moments.residual_square(mean[: k + 1])
        variance = max(square / left, 1e-8)
        inflated = NOISE_INFLATION * variance * (1 + variance / MISFIT**2)
        return _State(mean, covariance, computing, inflated, variance)

    def _computing(self, state: _State, level: float | None = None) -> Array:
        """Compare both beliefs with what all other evidence says of the class: its cavity."""
        k = self.classes
        if level is None:
            by_time, by_size = self._precisions(state.computing, self._level(state))
            level = self._level(state)
        else:
            by_time, by_size = self._precisions(self._never, level)
        mean, variance = state.mean[:k], np.diag(state.covariance)[:k]
        prior = by_time + by_size
        pull = by_time * level * self.work + by_size * self.size
        cavity = 1 / np.maximum(1 / variance - prior, 1e-12)
        centre = (mean / variance - pull) * cavity
        computes, waits = self._spreads(level)
        odds = np.log(1 / self._wait_probability(level) - 1)
        odds += _log_normal(centre - level * self.work, cavity + computes**2)
        odds -= _log_normal(centre - self.size, cavity + waits**2)
        answer: Array = 1 / (1 + np.exp(-np.clip(odds, -50, 50)))
        return answer

    def _wait_probability(self, level: float) -> Array:
        """Suspect before the data who has much more time than its rows explain."""
        ratio = level * self.work / np.maximum(self.size, 1e-300)
        strange = 1 - 1 / (1 + np.minimum(ratio / STRANGE_RATIO, 1e6) ** 2)
        answer: Array = WAIT_ODDS_CALM + (WAIT_ODDS_STRANGE - WAIT_ODDS_CALM) * strange
        return answer


def _solution(matrix: Array, vector: Array) -> Array:
    """Solve normal equations whose unknowns are of very different sizes."""
    scale = 1 / np.sqrt(np.diag(matrix))
    found: Array = np.linalg.solve(matrix * scale[:, None] * scale, vector * scale) * scale
    return found


def _hold(matrix: Array, vector: Array, which: NDArray[np.intp], values: Array) -> None:
    """Fix some unknowns of normal equations at these values, shape of the vector."""
    precision = HELD * matrix[which, which]
    matrix[which, which] += precision
    vector[which] += precision * values[which]


def _log_normal(distance: Array, variance: Array) -> Array:
    answer: Array = -0.5 * (np.log(variance) + distance**2 / variance)
    return answer


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _nothing(classes: int, total: float, ticks: int) -> Learned:
    zeros = np.zeros(classes)
    return Learned(zeros, total, np.zeros((classes, classes)), zeros + 1, None, 0.0, ticks)
