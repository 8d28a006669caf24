"""The models of how a demand continues up to the ceiling, and their probabilities.

Each model has a strength with a prior; the points weigh the strengths, and so the models. For a
given strength the ceiling c is reached where an expression that is linear in the coefficients is,
so the uncertainty of that throughput follows without an approximation (E. Fieller 1954):
P(limit ≤ X) = P(U(X) ≥ c).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from models.capacity.sample_sizes import HIGH_QUANTILE
from models.capacity.utilisation_fit import FittedParts, Part
from models.numerics import NEGLIGIBLE, ROUNDING, median, quantile
from models.robust import LinearFit, student_cdf
from models.usl.law import Array

CEILING = (0.975, 0.02)
"""Where a resource is full, mean and deviation: some end before all of their time is used."""


class Prior(NamedTuple):
    """The prior of a strength: a sum of narrow normal distributions."""

    places: Array
    """Their means, shape (places,)."""
    ln_p: Array
    """The logarithms of their probabilities."""
    width: float
    """The deviation of each."""

    @classmethod
    def within(cls, low: float, high: float, mean: float, deviation: float) -> "Prior":
        """Cut a normal distribution off at low and high."""
        places = np.linspace(low, high, NODE_COUNT)
        p = np.exp(-0.5 * ((places - mean) / deviation) ** 2)
        return cls(places, np.log(p / p.sum()), NODE_OVERLAP * float(places[1] - places[0]))


NODE_COUNT, NODE_OVERLAP = 16, 0.6
STEADY = Prior(np.zeros(1), np.zeros(1), 0.05)
GROWING = Prior.within(0.1, 1.2, mean=0.25, deviation=0.3)
"""Of how the demand changes up to the limit, Q·X/D."""
FALLING = Prior.within(0.05, 0.8, mean=0.42, deviation=0.14)
"""Of what waking is of the demand of an idle resource, w/(D + w)."""
MAX_FALLING_SHARE = 0.9
"""The largest share that is possible."""
LOG_WRITE_SHARE_PRIOR = (0.6, 0.2)
"""The same of a write of the log, mean and deviation: of durable commits on a real server 0.6 and
0.7 were measured."""
MAX_LOG_WRITE_SECONDS = 500e-6
"""Seconds of processor time that a write of the log costs at most; 98 to 337 µs were measured. Of
queries that hardly write that is a small part."""
WAKEUP_SECONDS, MAX_WAKEUP_SECONDS = 50e-6, 150e-6
"""Seconds of processor time that an idle entry costs: usually below, and at most. About 25, 50 and
150 were measured on three virtual machines; of long queries that is a small part."""


class LogSharing(NamedTuple):
    """How many commits share the writes of others as the throughput grows.

    With one write of the log at a time, each of so many seconds, X/(1 + X·seconds) are made, and
    the odds of sharing one grow with X; where commits queue for a processor too, more come
    together, and the odds grow with a power of X.
    """

    t: float
    """The throughput at which the share was seen, of the same scale as the limit."""
    odds: float
    """Of sharing a write there."""
    power: float

    def at(self, t: Array) -> Array:
        """Compute the share at each t, of any shape, in the units of the limit."""
        odds = self.odds * (t / self.t) ** self.power
        shared: Array = odds / (1 + odds)
        return shared


class DemandModel(NamedTuple):
    """One model of how a utilisation continues."""

    fit: LinearFit
    rows: Array
    """rows·coefficients is about `values` at each strength; shape (strengths, 3)."""
    values: Array
    prior: Prior
    """Of the strengths."""
    share: float
    """Its probability before any point."""
    falls: bool = False
    """Whether the third coefficient is w of (2) or (3), and not Q of (1)."""
    busy: float = 0.0
    """The share of the queries that were spared what falls, at the highest loads."""
    sharing: LogSharing | None = None
    """Where that share follows the throughput; else it is the ceiling's in the end."""
    as_steady: bool = False
    """Whether nothing shows of it: the points are as likely as with a demand that stays."""

    def saved(self, t: Array) -> Array:
        """Compute the share of queries without the falling part, (points,), at a ceiling t."""
        return np.full_like(t, CEILING[0]) if self.sharing is None else self.sharing.at(t)

    def third_factor(self, t: Array) -> Array:
        """Compute the factor of the third coefficient at each t, shape (points,)."""
        return -t * self.saved(t) if self.falls else t * t


@dataclass(frozen=True, eq=False)
class Extrapolations:
    """How several utilisations may continue: all strengths of all their models, in one array.

    All at once: for one of them numpy's calls take longer than what they compute.
    """

    models: Sequence[DemandModel]
    model: NDArray[np.intp] = field(repr=False)
    """The index of the model that each strength belongs to; shape (strengths,)."""
    utilisation: NDArray[np.intp] = field(repr=False)
    """Which utilisation it is of, likewise, rising."""
    coefficients: Array = field(repr=False)
    """Of the whole utilisation, shape (strengths, 3)."""
    covariance: Array = field(repr=False)
    """Shape (strengths, 3, 3)."""
    parts: Array = field(repr=False)
    """w/(D + w) of the first part, 0 where nothing falls; shape (strengths,)."""
    shares: Array = field(repr=False)
    """The probability of each strength; those of a utilisation sum to 1."""

    @classmethod
    def of(cls, many: Sequence[FittedParts], reach: Sequence[float]) -> Self:
        """Extrapolate the first part of each utilisation, while the others stay.

        reach is the t at which each is full if its demand stays. All are over the same t.
        """
        t = many[0].parts[0].t
        high = t >= quantile(t, HIGH_QUANTILE)
        each = [_demand_models(seen, at, high) for seen, at in zip(many, reach, strict=True)]
        models = [model for some in each for model in some]
        model = np.repeat(np.arange(len(models)), [len(m.values) for m in models])
        utilisation = np.repeat(np.arange(len(many)), [len(some) for some in each])[model]
        coefficients, covariance, ln_p = _condition(models, model)
        waking = coefficients[:, 2] / np.maximum(coefficients[:, 1], ROUNDING)
        parts = np.clip(waking, 0.0, MAX_FALLING_SHARE) * _each(models, model, lambda m: m.falls)
        for i, seen in enumerate(many):  # the errors of the other parts are independent
            for part in seen.parts[1:]:
                coefficients[utilisation == i] += part.at_full_load.coefficients
                covariance[utilisation == i] += part.at_full_load.covariance
        shares = _shares(models, model, utilisation, ln_p)
        return cls(models, model, utilisation, coefficients, covariance, parts, shares)

    def only(self, which: int) -> Self:
        """Take one utilisation."""
        of = self.utilisation == which
        columns = ("model", "coefficients", "covariance", "parts", "shares")
        rows = {name: getattr(self, name)[of] for name in columns}
        return replace(self, utilisation=np.zeros(len(rows["model"]), dtype=np.intp), **rows)

    @property
    def growth(self) -> Array:
        """The probability that the demand of each grows, shape (utilisations,)."""
        return self._expected(_each(self.models, self.model, lambda m: m.prior is GROWING))

    @property
    def log_shared(self) -> Array:
        """The probability that it falls as more commits share the writes of the log, likewise."""
        return self._expected(_each(self.models, self.model, lambda m: m.sharing is not None))

    @property
    def waking(self) -> Array:
        """What waking costs as a part of the demand of the first part at its ceiling, w/D.

        At the expected w/(D + w), since the expected w/D has a long tail; shape (utilisations,).
        """
        part = self._expected(self.parts)
        return part / (1 - part)

    def further_fall(self, reach: Sequence[float]) -> Array:
        """Expect how much of each demand at the highest loads seen is gone at the ceiling.

        The demand is D + w − w·busy; busy is the share that finds the resource busy.
        """
        of_model = self.utilisation[_starts(self.model)]
        found = [
            m.saved(np.array([reach[i]]))[0] for m, i in zip(self.models, of_model, strict=True)
        ]
        at_ceiling = np.array(found)[self.model]
        busy = _each(self.models, self.model, lambda m: m.busy)
        more = np.maximum(at_ceiling - busy, 0.0)
        return self._expected(self.parts * more / (1 - self.parts * busy))

    def _expected(self, values: Array) -> Array:
        expected: Array = np.add.reduceat(self.shares * values, _starts(self.utilisation))
        return expected

    def reached(self, t: Array) -> Array:
        """Compute P(the ceiling is reached below t), t ascending.

        t and the result have shape (utilisations, points).
        """
        kept = self.shares > NEGLIGIBLE
        model, of = self.model[kept], self.utilisation[kept]
        starts = _starts(model)
        thirds = [
            self.models[m].third_factor(t[i])
            for m, i in zip(model[starts], of[starts], strict=True)
        ]
        third_factor = np.repeat(thirds, np.diff(starts, append=len(model)), axis=0)
        t = t[of]
        c0, c1, c2 = self.coefficients[kept].T[:, :, None]
        v = self.covariance[kept].T[..., None]
        variance = v[0, 0] + t * (2 * v[0, 1] + t * v[1, 1])
        variance += third_factor * (2 * v[0, 2] + 2 * v[1, 2] * t + v[2, 2] * third_factor)
        falling = c2 * _each(self.models, model, lambda m: m.falls)[:, None]
        steep = CEILING[1] * (1 + falling * t)
        z = (c0 + c1 * t + c2 * third_factor - CEILING[0]) / np.sqrt(
            np.maximum(variance, 0) + steep**2
        )
        freedom = _each(self.models, model, lambda m: m.fit.freedom)[:, None]
        each = np.maximum.accumulate(student_cdf(z, freedom), axis=1)
        each *= self.shares[kept, None]
        cdf: Array = np.add.reduceat(each, _starts(of))
        return cdf


def _each(
    models: Sequence[DemandModel],
    model: NDArray[np.intp],
    value: Callable[[DemandModel], float],
) -> Array:
    """Look up a value of the model of each strength, shape (strengths,)."""
    return np.array([value(m) for m in models], dtype=np.float64)[model]


def _starts(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Find where each group begins."""
    return np.append(0, np.flatnonzero(groups[1:] != groups[:-1]) + 1)


def _condition(
    models: Sequence[DemandModel], model: NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """Condition each fit on rows·coefficients = values ± deviation (a Kalman step each).

    Returns coefficients, covariances and ln p given the fit, the first axis of each (strengths,).
    """
    rows, values = (np.concatenate([getattr(m, c) for m in models]) for c in ("rows", "values"))
    before = np.stack([m.fit.coefficients for m in models])[model]
    covariance = np.stack([m.fit.covariance for m in models])[model]
    freedom = _each(models, model, lambda m: m.fit.freedom)
    spread = (rows[:, None, :] @ covariance)[:, 0, :]
    variance = np.sum(spread * rows, axis=1)
    off = values - np.sum(rows * before, axis=1)
    whole = variance + _each(models, model, lambda m: m.prior.width) ** 2
    ln_p = np.concatenate([m.prior.ln_p for m in models]) + 0.5 * np.log(variance / whole)
    ln_p -= 0.5 * (freedom + 1) * np.log1p(off**2 / (whole * freedom))
    gain = spread / whole[:, None]
    coefficients = before + gain * off[:, None]
    return coefficients, covariance - gain[:, :, None] * spread[:, None, :], ln_p


def _shares(
    models: Sequence[DemandModel],
    model: NDArray[np.intp],
    utilisation: NDArray[np.intp],
    ln_p: Array,
) -> Array:
    """Weigh the strengths of each utilisation by how likely they make the points.

    Points that correlate count as fewer: as the same number for all models, else that would decide.
    """
    starts, freedom = _starts(utilisation), _each(models, model, lambda m: m.fit.freedom)
    ln_p = ln_p + _each(models, model, lambda m: m.as_steady) * ln_p[starts][utilisation]
    ln_scale = np.log(_each(models, model, lambda m: m.fit.scale))
    ln_p -= np.minimum.reduceat(freedom, starts)[utilisation] * ln_scale
    ln_p += np.log(_each(models, model, lambda m: m.share))
    p = np.exp(ln_p - np.maximum.reduceat(ln_p, starts)[utilisation])
    shares: Array = p / np.add.reduceat(p, starts)[utilisation]
    return shares


UNINFORMATIVE_DEVIATION = 1e3
"""The deviation of a coefficient that the points do not determine, in units of the demand."""


def _demand_models(seen: FittedParts, reach: float, high: NDArray[np.bool_]) -> list[DemandModel]:
    """List the models of the first part: its demand stays, grows, falls by (2), falls by (3).

    high marks the high loads, shape as t.
    """
    first, awake, shares = seen.parts[0], iter(seen.awake), iter(seen.parts[0].shares)
    busy = iter([median(share[high]) for share in seen.busy])
    growth = np.zeros((NODE_COUNT, 3))
    growth[:, 2] = reach / first.slope
    models = [
        DemandModel(first.curved, growth[:1], STEADY.places, STEADY, next(shares)),
        DemandModel(first.curved, growth, GROWING.places, GROWING, next(shares)),
        _falling(next(awake), FALLING, next(shares), next(busy)),
    ]
    if first.idleness is not None:
        prior = _waking_prior(first.idleness.per_query / first.slope)
        models.append(_falling(next(awake), prior, next(shares), next(busy)))
    if first.wakes_unseen is not None:
        models.append(_falling_unseen(first, next(shares)))
    if first.log_sharing is not None:
        part = MAX_LOG_WRITE_SECONDS * first.log_sharing.per_query / first.slope
        prior = Prior.within(0.0, min(part, MAX_FALLING_SHARE), *LOG_WRITE_SHARE_PRIOR)
        falling = _falling(next(awake), prior, 0.0, next(busy))
        saved = min(falling.busy, CEILING[0])
        for power in LOG_SHARING_POWERS:
            sharing = LogSharing(median(first.t[high]), saved / (1 - saved), power)
            models.append(falling._replace(share=next(shares), sharing=sharing))
    return models


def _falling(awake: LinearFit, prior: Prior, share: float, busy: float) -> DemandModel:
    """Follow (2) or (3), fitted with the share of the queries that find the resource busy."""
    rows = np.zeros((NODE_COUNT, 3))
    rows[:, 1], rows[:, 2] = -prior.places, 1.0
    rows /= awake.coefficients[1]
    return DemandModel(awake, rows, np.zeros(NODE_COUNT), prior, share, falls=True, busy=busy)


def _waking_prior(part: float) -> Prior:
    """The prior of what waking a processor costs; part: one second of it as a share of D + w."""
    most = min(MAX_WAKEUP_SECONDS * part, MAX_FALLING_SHARE)
    return Prior.within(0.0, most, mean=0.0, deviation=WAKEUP_SECONDS * part)


def _falling_unseen(first: Part, share: float) -> DemandModel:
    """Follow (3) where each query seen has woken the processor and the last ones will not.

    So are those of clients that send them evenly. The points are as likely as with a demand that
    stays, whatever w: that is believed alone.
    """
    covariance = first.straight.covariance.copy()
    covariance[2, 2] = (UNINFORMATIVE_DEVIATION * first.slope) ** 2
    unknown = replace(first.straight, covariance=covariance)
    model = _falling(unknown, _waking_prior(first.wakes_unseen or 0.0), share, 0.0)
    return model._replace(as_steady=True)


LOG_SHARING_POWERS = (2.0, 3.0)
"""The power of X with which the odds of sharing a write of the log grow: 1 while one write is made
at a time, 2.4 to 3.2 were measured up to the peaks of durable commits."""
