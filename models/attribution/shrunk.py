"""One price per class, drawn towards the price of all: what can be learnt from one column each.

y_t = b·Δt + Σ_k u_k·x_kt + noise, u ≥ 0, u_k ~ N(c, (τ·ū)²) with ū = Σy/Σx, c and b unknown. The
strength τ is the one with the greatest evidence, by Laplace's method on the classes that are not
at 0: D. MacKay, "Bayesian Interpolation", Neural Computation 4 (1992).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.attribution.beliefs import Learned
from models.attribution.class_ticks import Array
from models.attribution.moments import Moments
from models.attribution.problem import NOISE_INFLATION
from models.attribution.quadratic import minimise_non_negative

STRENGTHS = (0.03, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
"""τ: from "all classes cost the same" to "each has its own price"."""
NOISE_ROUNDS, SETTLED = 4, 0.01
"""In which the noise settles, or until it moves by less than this part."""
HOPELESS = 8.0
"""ln: a strength whose evidence is so far below the best is beyond it; those after it are worse."""
FLAT = 1e-6


@dataclass(frozen=True)
class _Fit:
    """(m, b, c) in units of ū, Σy and ū, at one strength."""

    mode: Array
    precision: Array
    noise: float
    evidence: float


def learn_shrunk(moments: Moments, base_spread: float | None = None) -> Learned:
    """Fit moments whose regressors are the classes' own columns x; see the module.

    `base_spread`: b is believed to be about this part of Σy at most, which matters where the load
    hardly varies; None: nothing is believed.
    """
    scaled, total = moments.scaled(), moments.y_total
    x = moments.totals[:-1]
    k = len(x)
    if total <= 0 or not (x > 0).any():
        zeros = np.zeros(k)
        covariance = np.zeros((k, k))
        return Learned(zeros, total, covariance, zeros + 1, None, 0.0, moments.ticks)
    share = x / x.sum()
    problem = _in_prices(scaled, share)
    base = FLAT if base_spread is None else 1 / base_spread**2
    best = max(_fits(problem, share > 0, base), key=lambda fit: fit.evidence)
    unit = share * total
    spread = np.linalg.inv(best.precision)[:k, :k] * NOISE_INFLATION
    return Learned(
        totals=best.mode[:k] * unit,
        base=float(best.mode[k]) * total,
        covariance=spread * unit[:, None] * unit,
        computing=np.ones(k),
        level=float(best.mode[k + 1] * total / x.sum()),
        noise=float(np.sqrt(best.noise)),
        ticks=moments.ticks,
    )


def _in_prices(scaled: Moments, share: Array) -> Moments:
    """Let the coefficient of class k be u_k/ū instead of its part of Σy."""
    unit = np.append(share, 1.0)
    gram = scaled.gram * unit[:, None] * unit
    projection = scaled.projection * unit
    return Moments(gram, projection, scaled.square, scaled.totals, 1.0, scaled.ticks)


def _fits(problem: Moments, active: Array, base: float) -> Iterator[_Fit]:
    """Fit at every strength, each from where the one before ended."""
    fit: _Fit | None = None
    best = -np.inf
    for tau in STRENGTHS:
        fit = _fit(problem, active, tau, fit, base)
        yield fit
        best = max(best, fit.evidence)
        if fit.evidence < best - HOPELESS:
            return


def _fit(problem: Moments, active: Array, tau: float, near: _Fit | None, base: float) -> _Fit:
    """Find mode and noise in turn at one strength."""
    k, t = len(active), problem.ticks
    prior = np.where(active, 1.0, 1e6) / tau**2
    noise = near.noise if near else 0.02
    mode = near.mode if near else np.ones(k + 2)
    for _ in range(NOISE_ROUNDS):
        matrix, vector = _normal(problem, prior, noise, base)
        mode = minimise_non_negative(matrix, vector, mode)
        free = mode > 0
        inverse = np.linalg.inv(matrix[np.ix_(free, free)])
        held = np.append(prior, [0.0, prior[active].sum()])[free]
        freedom = float(free.sum() - np.diag(inverse) @ held)
        square = problem.residual_square(mode[: k + 1])
        before, noise = noise, max(square / max(t - freedom, t / 4), 1e-10)
        if abs(noise - before) < SETTLED * noise:
            break
    drawn = float(prior[active] @ (mode[:k][active] - mode[k + 1]) ** 2)
    log_det = float(np.linalg.slogdet(matrix[np.ix_(free, free)])[1])
    evidence = -square / noise - t * np.log(noise) - drawn - 2 * active.sum() * np.log(tau)
    return _Fit(mode, matrix, noise, 0.5 * float(evidence - log_det))


def _normal(problem: Moments, prior: Array, noise: float, base: float) -> tuple[Array, Array]:
    k, diagonal = len(prior), np.arange(len(prior))
    matrix, vector = np.zeros((k + 2, k + 2)), np.zeros(k + 2)
    matrix[: k + 1, : k + 1] = problem.gram / noise
    vector[: k + 1] = problem.projection / noise
    matrix[diagonal, diagonal] += prior
    matrix[diagonal, k + 1] = matrix[k + 1, diagonal] = -prior
    matrix[k, k] += base
    matrix[k + 1, k + 1] = prior.sum() * (1 + 1e-9) + FLAT
    return matrix, vector
