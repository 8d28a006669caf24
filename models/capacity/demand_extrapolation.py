"""The models of how a demand continues up to the ceiling, and their probabilities.

Each model has a strength with a prior; the points weigh the strengths, and so the models. For a
given strength the ceiling c is reached where an expression that is linear in the coefficients
reaches c, so the uncertainty of that throughput follows without an approximation (E. Fieller 1954):
P(limit ≤ X) = P(U(X) ≥ c).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arrays import Array, Mask, Quantity
from models.capacity.cpu_wakeups import WAKEUP_SECONDS
from models.capacity.utilisation_fit import FittedParts, UtilisationPart
from models.distribution_functions import student_cdf
from models.numerics import NEGLIGIBLE, NODE_COUNT, ROUNDING, TINY, median, quantile
from models.robust_regression import LinearFit
from models.shared_constants import HIGH_QUANTILE, SIGNIFICANT_Z, TOLERATED_CHANGE
from models.trust import MAX_ERROR

CEILING = (0.975, 0.02)
"""The utilisation at which a resource is full, mean and deviation: of some it is less than 1."""


class Prior(NamedTuple):
    """The prior of a strength: a sum of narrow normal distributions."""

    places: Array
    """Their means, shape (places,)."""
    ln_p: Array
    """The logarithms of their probabilities, shape (places,)."""
    width: float
    """The deviation of each."""

    @classmethod
    def normal(cls, mean: float, deviation: float, low: float = 0.0, high: float = inf) -> "Prior":
        """Create the prior of a normal distribution, cut off at low, high, and two deviations."""
        places = low + (min(high, mean + SIGNIFICANT_Z * deviation) - low) * EVEN_STEPS
        p = np.exp(-0.5 * ((places - mean) / deviation) ** 2)
        return cls(places, np.log(p / p.sum()), float(places[1] - places[0]) / 2)

    @classmethod
    def at(cls, place: float, width: float) -> "Prior":
        """Create the prior of one normal distribution."""
        return cls(np.array([place]), np.zeros(1), width)


EVEN_STEPS = np.arange(NODE_COUNT) / (NODE_COUNT - 1)
"""The nodes' places between the ends of a prior, 0 and 1."""
STEADY = Prior.at(0.0, MAX_ERROR)
"""The prior of how much a demand that stays changes up to the limit, Q·X/D."""
GROWING = Prior.normal(0.0, 0.5, low=TOLERATED_CHANGE)
"""The same of a demand that grows."""
FALLING = Prior.normal(0.42, 0.14)
"""The prior of the share of waking in the demand of an idle resource, w/(D + w)."""
MAX_FALLING_SHARE = float(FALLING.places[-1])
"""The largest possible share."""
LOG_WRITE_SECONDS = (200e-6, 100e-6)
"""The processor time (s) that a write of the log takes, mean and deviation: 98 to 337 µs were
measured for durable commits on real servers."""


class LogSharing(NamedTuple):
    """The share of commits that need no log write of their own, over the throughput.

    With one write of the log at a time, each of τ seconds, X/(1 + X·τ) are made per second, and the
    odds of sharing one grow with X; where commits queue for a processor too, more come together,
    and the odds grow with a power of X.
    """

    t: float
    """The throughput at which the share was seen, in the units of the limit."""
    odds: float
    """The odds of sharing a write there."""

    def at(self, t: Quantity) -> Quantity:
        """Compute the share at each t, of any shape, in the units of the limit."""
        odds = self.odds * (t / self.t) ** LOG_SHARING_POWER
        shared: Quantity = odds / (1 + odds)
        return shared


class DemandModel(NamedTuple):
    """One model of how a utilisation continues."""

    fit: LinearFit
    rows: Array
    """rows·coefficients is about `values` at each strength; shape (strengths, 3)."""
    values: Array
    """Shape (strengths,)."""
    prior: Prior
    """The prior of the strengths."""
    share: float
    """The probability of the model before any point."""
    falls: bool = False
    """Whether the third coefficient is w of (2) or (3) in `utilisation_fit`, not Q of (1)."""
    busy: float = 0.0
    """The share of the queries without the falling part of the demand, at the highest loads."""
    sharing: LogSharing | None = None
    """That share over the throughput; None: at the limit it is the utilisation of the ceiling."""
    is_undetectable: bool = False
    """Whether the points cannot show it: they are as likely as with a demand that stays."""

    def saved(self, t: Quantity) -> Quantity | float:
        """Compute the share of queries without the falling part if t is the limit."""
        return CEILING[0] if self.sharing is None else self.sharing.at(t)


@dataclass(frozen=True, eq=False)
class Extrapolations:
    """The possible continuations of several utilisations, as arrays of all strengths of all models.

    They are computed together because for a single one numpy's calls take longer than the
    arithmetic.
    """

    models: Sequence[DemandModel]
    model: NDArray[np.intp] = field(repr=False)
    """The index of the model that each strength belongs to; shape (strengths,)."""
    utilisation: NDArray[np.intp] = field(repr=False)
    """The index of the utilisation that each belongs to, likewise, ascending."""
    coefficients: Array = field(repr=False)
    """Those of the whole utilisation, shape (strengths, 3)."""
    covariance: Array = field(repr=False)
    """Shape (strengths, 3, 3)."""
    parts: Array = field(repr=False)
    """w/(D + w) of the first part, 0 where the demand does not fall; shape (strengths,)."""
    shares: Array = field(repr=False)
    """The probability of each strength; those of a utilisation sum to 1."""
    falls: Array = field(repr=False)
    """Of the model of each, 1 or 0, shape (strengths,)."""
    freedom: Array = field(repr=False)
    """Degrees of freedom of its fit, likewise."""

    @classmethod
    def of(cls, many: Sequence[FittedParts], reach: Sequence[float]) -> Self:
        """Extrapolate the first part of each utilisation, while the demands of the others stay.

        reach is the t at which each is full if its demand stays. All have the same t.
        """
        t = many[0].parts[0].t
        high = t >= quantile(t, HIGH_QUANTILE)
        groups = [_demand_models(seen, at, high) for seen, at in zip(many, reach, strict=True)]
        models = [model for group in groups for model in group]
        model = np.repeat(np.arange(len(models)), [len(m.values) for m in models])
        utilisation = np.repeat(np.arange(len(many)), [len(group) for group in groups])[model]
        falls = _model_values(models, model, lambda m: m.falls)
        freedom = _model_values(models, model, lambda m: m.fit.freedom)
        coefficients, covariance, ln_p = _condition(models, model, freedom)
        waking = coefficients[:, 2] / np.maximum(coefficients[:, 1], ROUNDING)
        parts = np.clip(waking, 0.0, MAX_FALLING_SHARE) * falls
        for i, seen in enumerate(many):  # the errors of the other parts are independent
            for part in seen.parts[1:]:
                coefficients[utilisation == i] += part.at_full_load.coefficients
                covariance[utilisation == i] += part.at_full_load.covariance
        shares = _posterior_probabilities(models, model, utilisation, freedom, ln_p)
        return cls(
            models, model, utilisation, coefficients, covariance, parts, shares, falls, freedom
        )

    def only(self, which: int) -> Self:
        """Return the extrapolations of one utilisation."""
        selected = self.utilisation == which
        columns = ("model", "coefficients", "covariance", "parts", "shares", "falls", "freedom")
        rows = {name: getattr(self, name)[selected] for name in columns}
        return replace(self, utilisation=np.zeros(len(rows["model"]), dtype=np.intp), **rows)

    @property
    def growth(self) -> Array:
        """The probability that the demand of each grows, shape (utilisations,)."""
        return self._expected(_model_values(self.models, self.model, lambda m: m.prior is GROWING))

    @property
    def log_shared(self) -> Array:
        """The probability that each falls as more commits share the writes of the log, likewise."""
        return self._expected(
            _model_values(self.models, self.model, lambda m: m.sharing is not None)
        )

    @property
    def waking(self) -> Array:
        """The cost of waking as a part of the demand of the first part at its ceiling, w/D.

        It is that of the expected w/(D + w), because w/D has a long tail; shape (utilisations,).
        """
        part = self._expected(self.parts)
        return part / (1 - part)

    def further_fall(self, limits: Sequence[float]) -> Array:
        """Compute the expected fall of each demand from the highest loads to its limit, a share.

        The demand is D + w − w·busy; busy is the share of queries that find the resource busy.
        limits are in the unit of t, one a utilisation; so is the result.
        """
        utilisation_of_model = self.utilisation[_starts(self.model)]
        saved = [m.saved(limits[i]) for m, i in zip(self.models, utilisation_of_model, strict=True)]
        at_ceiling = np.array(saved)[self.model]
        busy = _model_values(self.models, self.model, lambda m: m.busy)
        more = np.maximum(at_ceiling - busy, 0.0)
        return self._expected(self.parts * more / (1 - self.parts * busy))

    @cached_property
    def _first_strengths(self) -> NDArray[np.intp]:
        """The first strength of each utilisation, shape (utilisations,)."""
        return _starts(self.utilisation)

    def _expected(self, values: Array) -> Array:
        expected: Array = np.add.reduceat(self.shares * values, self._first_strengths)
        return expected

    def reached(self, reach: ArrayLike, ratios: Array) -> Array:
        """Compute P(the ceiling is reached below t = reach·ratio), the ratios ascending.

        reach has one value for each utilisation, ratios the shape (points,); the result has shape
        (utilisations, points).
        """
        kept = np.flatnonzero(self.shares > NEGLIGIBLE)
        model, utilisation = self.model[kept], self.utilisation[kept]
        exponents = np.arange(5)
        units = np.asarray(reach, dtype=np.float64)[utilisation, None] ** exponents
        powers = ratios ** exponents[:, None]
        over, variance = ((columns * units) @ powers for columns in self._polynomials(kept))
        for m in model[_starts(model)].tolist():
            sharing = self.models[m].sharing
            if sharing is not None:
                of_model = model == m
                t = units[of_model, 1:2] * ratios
                third, v = -t * sharing.at(t), self.covariance[kept[of_model], :, 2, None]
                over[of_model] += self.coefficients[kept[of_model], 2, None] * third
                variance[of_model] += third * (2 * (v[:, 0] + v[:, 1] * t) + v[:, 2] * third)
        np.maximum(variance, 0, out=variance)
        each = student_cdf(over, self.freedom[kept, None], variance)
        falls = (each[:, 1:] < each[:, :-1]).any(axis=1)
        each[falls] = np.maximum.accumulate(each[falls], axis=1)
        each *= self.shares[kept, None]
        cdf: Array = np.add.reduceat(each, _starts(utilisation))
        return cdf

    def _polynomials(self, which: NDArray[np.intp]) -> tuple[Array, Array]:
        """Compute the coefficients of 1, t … t⁴ of the use beyond the ceiling, and of its variance.

        Both of shape (strengths, 5), without the third coefficient's part where its factor is that
        of log writes. Else its factor is a·t + b·t², and one of a and b is 0.
        """
        c, falls = self.coefficients[which], self.falls[which]
        v = self.covariance[which]
        shares_log = _model_values(self.models, self.model[which], lambda m: m.sharing is not None)
        a, b = -CEILING[0] * falls * (1 - shares_log), 1 - falls
        over, variance = np.zeros((2, len(which), 5))
        over[:, 0] = c[:, 0] - CEILING[0]
        over[:, 1] = c[:, 1] + a * c[:, 2]
        over[:, 2] = b * c[:, 2]
        variance[:, 0] = v[:, 0, 0]
        variance[:, 1] = 2 * (v[:, 0, 1] + a * v[:, 0, 2])
        variance[:, 2] = v[:, 1, 1] + a * (2 * v[:, 1, 2] + a * v[:, 2, 2]) + 2 * b * v[:, 0, 2]
        variance[:, 3] = 2 * b * v[:, 1, 2]
        variance[:, 4] = b * v[:, 2, 2]
        falling = falls * c[:, 2]  # the ceiling's own deviation is that of 1 + falling·t
        ceiling = np.stack([np.ones_like(falling), 2 * falling, falling * falling], axis=1)
        variance[:, :3] += CEILING[1] ** 2 * ceiling
        return over, variance


def _model_values(
    models: Sequence[DemandModel],
    model: NDArray[np.intp],
    value: Callable[[DemandModel], float],
) -> Array:
    """Look up a value of the model of each strength, shape (strengths,)."""
    return np.array([value(m) for m in models], dtype=np.float64)[model]


def _starts(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Find where each group begins."""
    begins = np.ones(len(groups), dtype=np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=begins[1:])
    return begins.nonzero()[0]


def _condition(
    models: Sequence[DemandModel], model: NDArray[np.intp], freedom: Array
) -> tuple[Array, Array, Array]:
    """Condition each fit on rows·coefficients = values ± deviation (a Kalman step each).

    freedom has shape (strengths,). Returns coefficients, covariances and ln p given the fit, the
    first axis of each (strengths,).
    """
    rows, values = (np.concatenate([getattr(m, c) for m in models]) for c in ("rows", "values"))
    before = np.array([m.fit.coefficients for m in models])[model]
    covariance = np.array([m.fit.covariance for m in models])[model]
    spread = (rows[:, :, None] * covariance).sum(axis=1)
    variance = np.sum(spread * rows, axis=1)
    off = values - np.sum(rows * before, axis=1)
    whole = variance + _model_values(models, model, lambda m: m.prior.width) ** 2
    ln_p = np.concatenate([m.prior.ln_p for m in models]) + 0.5 * np.log(variance / whole)
    ln_p -= 0.5 * (freedom + 1) * np.log1p(off**2 / (whole * freedom))
    gain = spread / whole[:, None]
    coefficients = before + gain * off[:, None]
    return coefficients, covariance - gain[:, :, None] * spread[:, None, :], ln_p


def _posterior_probabilities(
    models: Sequence[DemandModel],
    model: NDArray[np.intp],
    utilisation: NDArray[np.intp],
    freedom: Array,
    ln_p: Array,
) -> Array:
    """Compute the posterior probabilities of the strengths of each utilisation.

    Correlated points count as fewer, and as the same number for all models of a utilisation:
    otherwise that number would decide.
    """
    starts = _starts(utilisation)
    ln_p = (
        ln_p + _model_values(models, model, lambda m: m.is_undetectable) * ln_p[starts][utilisation]
    )
    ln_scale = np.log(_model_values(models, model, lambda m: m.fit.scale))
    ln_p -= np.minimum.reduceat(freedom, starts)[utilisation] * ln_scale
    ln_p += np.log(_model_values(models, model, lambda m: m.share))
    p = np.exp(ln_p - np.maximum.reduceat(ln_p, starts)[utilisation])
    shares: Array = p / np.add.reduceat(p, starts)[utilisation]
    return shares


def _demand_models(seen: FittedParts, reach: float, high: Mask) -> list[DemandModel]:
    """Create the models of the first part: its demand stays, grows, falls by (2), falls by (3).

    high marks the high loads, shape as t.
    """
    first, awake, shares = seen.parts[0], iter(seen.fits_by_busy), iter(seen.parts[0].shares)
    busy = iter([median(share[high]) for share in seen.busy])
    growth = np.zeros((NODE_COUNT, 3))
    growth[:, 2] = reach / first.slope
    models = [
        DemandModel(first.curved, growth[:1], STEADY.places, STEADY, next(shares)),
        DemandModel(first.curved, growth, GROWING.places, GROWING, next(shares)),
        _falling_model(next(awake), FALLING, next(shares), next(busy)),
    ]
    if first.wakeups is not None:
        prior = _waking_prior(first.wakeups.per_query / first.slope)
        models.append(_falling_model(next(awake), prior, next(shares), next(busy)))
    if first.wakeup_share_per_second is not None:
        models.append(_unseen_falling_model(first, next(shares)))
    if first.log_sharing is not None:
        prior = log_write_prior(first.log_sharing.per_query / first.slope)
        falling = _falling_model(next(awake), prior, 0.0, next(busy))
        saved = min(falling.busy, CEILING[0])
        sharing = LogSharing(median(first.t[high]), saved / (1 - saved))
        models.append(falling._replace(share=next(shares), sharing=sharing))
    return models


def _falling_model(awake: LinearFit, prior: Prior, share: float, busy: float) -> DemandModel:
    """Create the model by (2) or (3), from its fit; busy: as `DemandModel` has it."""
    rows = np.zeros((NODE_COUNT, 3))
    rows[:, 1], rows[:, 2] = -prior.places, 1.0
    rows /= awake.coefficients[1]
    return DemandModel(awake, rows, np.zeros(NODE_COUNT), prior, share, falls=True, busy=busy)


def log_write_prior(part: float) -> Prior:
    """Return the prior of the log writes' share of a demand; part: as for one second each, or 0."""
    mean, deviation = LOG_WRITE_SECONDS
    return Prior.normal(mean * part, max(deviation * part, TINY), high=MAX_FALLING_SHARE)


def _waking_prior(part: float) -> Prior:
    """Return the prior of w/(D + w) of a processor; part: what it would be for w of one second."""
    return Prior.normal(0.0, WAKEUP_SECONDS * part, high=MAX_FALLING_SHARE)


def _unseen_falling_model(first: UtilisationPart, share: float) -> DemandModel:
    """Create the model by (3) where each query seen has woken the processor and the last will not.

    So it is with clients that send them evenly. The points are as likely as with a demand that
    stays, whatever w is, so that only the prior of w counts.
    """
    covariance = first.straight.covariance.copy()
    covariance[2, 2] = first.slope**2 / NEGLIGIBLE  # the points say nothing about it
    unknown = first.straight._replace(covariance=covariance)
    model = _falling_model(unknown, _waking_prior(first.wakeup_share_per_second or 0.0), share, 0.0)
    return model._replace(is_undetectable=True)


LOG_SHARING_POWER = 2.5
"""The power of X with which the odds of sharing a write of the log grow: 1 while one write is made
at a time, 2.4 to 3.2 were measured up to the peaks of durable commits."""
