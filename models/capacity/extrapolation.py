"""The ways in which a utilisation may continue up to its ceiling, and their probabilities.

Each way has a strength with a prior; the points weigh the strengths, and so the ways. For a given
strength the ceiling c is reached where an expression that is linear in the coefficients is, so the
uncertainty of that throughput follows without an approximation (E. Fieller 1954): P(limit ≤ X) =
P(U(X) ≥ c).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from models.capacity.demand import Followed, Part, unit
from models.capacity.shared_cost import SharedCost
from models.numerics import median, quantile
from models.robust import LinearFit, student_cdf
from models.usl.law import Array

CEILING = (0.975, 0.02)
"""Where a resource is full, mean and deviation: some end before all of their time is used."""


class Prior(NamedTuple):
    """What is believed of a strength: a sum of narrow normal distributions."""

    places: Array
    """Their means, shape (places,)."""
    ln_p: Array
    """The logarithms of their probabilities."""
    width: float
    """The deviation of each."""

    @classmethod
    def within(cls, low: float, high: float, mean: float, deviation: float) -> "Prior":
        """Cut a normal distribution off at low and high."""
        places = np.linspace(low, high, PLACES)
        p = np.exp(-0.5 * ((places - mean) / deviation) ** 2)
        return cls(places, np.log(p / p.sum()), OVERLAP * float(places[1] - places[0]))


PLACES, OVERLAP = 16, 0.6
STEADY = Prior(np.zeros(1), np.zeros(1), 0.05)
GROWING = Prior.within(0.1, 1.2, mean=0.25, deviation=0.3)
"""Of how the demand changes up to the limit, Q·X/D."""
FALLING = Prior.within(0.05, 0.8, mean=0.42, deviation=0.14)
"""Of what waking is of the demand of an idle resource, w/(D + w)."""
LARGEST_PART = 0.9
"""No more of it is believed."""
WRITING = (0.6, 0.2)
"""The same of a write of the log, mean and deviation: of durable commits on a real server 0.6 and
0.7 were measured."""
LONGEST_WRITE = 500e-6
"""Seconds of processor time that a write of the log costs at most; 98 to 337 µs were measured. Of
queries that hardly write that is a small part."""
WAKING, LONGEST_WAKING = 50e-6, 150e-6
"""Seconds of processor time that an idle entry costs: usually below, and at most. About 25, 50 and
150 were measured on three virtual machines; of long queries that is a small part."""


class Sharing(NamedTuple):
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


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """One way to go on, by its strength."""

    coefficients: Array
    """Shape (places, 3)."""
    covariance: Array
    """Shape (places, 3, 3)."""
    ln_p: Array
    """Of each strength, given the fit."""
    freedom: float
    falls: bool
    """Whether the third coefficient is w of (2) or (3), and not Q of (1)."""
    scale: float
    """The deviation of the points from it."""
    sharing: "Sharing | None" = None
    """The share of the queries that are spared what falls, where it follows the throughput."""

    @classmethod
    def of(
        cls, fit: LinearFit, rows: Array, values: Array, prior: Prior, falls: bool
    ) -> "Extrapolation":
        """Condition the fit on row·coefficients = value ± deviation, a Kalman step for each place.

        Shapes (places, 3) and (places,). `weighed` compares likelihoods once the others are known.
        """
        spread = rows @ fit.covariance
        variance = np.sum(spread * rows, axis=1)
        off, whole = values - rows @ fit.coefficients, variance + prior.width**2
        ln_p = prior.ln_p + 0.5 * np.log(variance / whole)
        ln_p = ln_p - 0.5 * (fit.freedom + 1) * np.log1p(off**2 / (whole * fit.freedom))
        gain = spread / whole[:, None]
        coefficients = fit.coefficients + gain * off[:, None]
        covariance = fit.covariance - gain[:, :, None] * spread[:, None, :]
        return cls(coefficients, covariance, ln_p, fit.freedom, falls, fit.scale)

    def weighed(self, freedom: float) -> Array:
        """Compute ln p of each strength and the points, (places,); these count as `freedom`."""
        ln_p: Array = self.ln_p - freedom * np.log(self.scale)
        return ln_p

    def spared(self, t: Array) -> Array:
        """Compute the share of queries without the falling part, (points,), at a ceiling t."""
        return np.full_like(t, CEILING[0]) if self.sharing is None else self.sharing.at(t)

    def third(self, t: Array) -> Array:
        """Compute the factor of the third coefficient at each t, shape (places, points)."""
        return np.tile(-t * self.spared(t) if self.falls else t * t, (len(self.ln_p), 1))


@dataclass(frozen=True, eq=False)
class Extrapolations:
    """How a utilisation may go on."""

    every: tuple[Extrapolation, ...]
    """It stays, it grows, it falls by (2), and by (3) where that is measured."""
    shares: tuple[Array, ...]
    """The probability of each strength of each of them."""
    waking: float
    """What waking costs as a part of the demand of the first part at its ceiling, w/D: at the
    expected w/(D + w), since the expected w/D has a long tail."""
    further_fall: float
    """By how much the demand is expected to fall from the highest loads seen on, as a share."""
    log_shared: float = 0.0
    """The probability that it falls as more commits share the writes of the log."""

    @classmethod
    def of(cls, seen: Followed, reach: float) -> "Extrapolations":
        """Let the first part go on, while the others stay.

        reach is the t at which the sum is full if its demand stays.
        """
        first, others = seen.parts[0], [part.straight for part in seen.parts[1:]]
        growth, awake = unit(2) * reach / first.slope, iter(seen.awake)
        grown = np.tile(growth, (PLACES, 1))
        extrapolations = [
            Extrapolation.of(first.bent, growth[None, :], STEADY.places, STEADY, falls=False),
            Extrapolation.of(first.bent, grown, GROWING.places, GROWING, falls=False),
            _falling(next(awake), FALLING),
        ]
        busy = [seen.busy[0]]
        if first.idleness is not None:
            busy.append(first.idleness.spared)
            prior = _waking(first.idleness.per_query / first.slope)
            extrapolations.append(_falling(next(awake), prior))
        if first.wakes_unseen is not None:
            busy.append(np.zeros_like(first.t))
            extrapolations.append(_falling_unseen(first, extrapolations[0]))
        if first.log_sharing is not None:
            busy += len(LOG_SHARED) * [first.log_sharing.spared]
            extrapolations += _sharing(first, first.log_sharing, next(awake))
        # points that correlate count as fewer: as the same number for all, else that would decide
        freedom = min(one.freedom for one in extrapolations)
        weighed = [one.weighed(freedom) for one in extrapolations]
        ln_p = [p + np.log(share) for p, share in zip(weighed, first.shares, strict=True)]
        highest = max(float(each.max()) for each in ln_p)
        p = [np.exp(each - highest) for each in ln_p]
        whole = sum(float(each.sum()) for each in p)
        shares = tuple(each / whole for each in p)
        falling = list(zip(extrapolations[2:], shares[2:], strict=True))
        high = first.t >= quantile(first.t, HIGH)
        falls = [
            _fall(*each, median(by[high]), reach) for each, by in zip(falling, busy, strict=True)
        ]
        part = sum(float(p @ _parts(one)) for one, p in falling)
        log = sum(float(p.sum()) for p in shares[-len(LOG_SHARED) :])
        every = tuple(_beside(one, others) for one in extrapolations)
        return cls(
            every,
            shares,
            part / (1 - part),
            sum(falls),
            0.0 if first.log_sharing is None else log,
        )

    @property
    def growth(self) -> float:
        """The probability that the demand grows."""
        return float(self.shares[1].sum())

    def reached(self, t: Array) -> Array:
        """Compute P(the ceiling is reached below t), shape (points,), t ascending."""
        ceiling, deviation = CEILING
        third = np.concatenate([one.third(t) for one in self.every])
        c = np.concatenate([one.coefficients for one in self.every])[:, :, None]
        v = np.concatenate([one.covariance for one in self.every])[:, :, :, None]
        variance = v[:, 0, 0] + t * (2 * v[:, 0, 1] + t * v[:, 1, 1])
        variance += third * (2 * v[:, 0, 2] + 2 * v[:, 1, 2] * t + v[:, 2, 2] * third)
        steep = deviation * (1 + self._of_places([one.falls for one in self.every]) * c[:, 2] * t)
        z = (c[:, 0] + c[:, 1] * t + c[:, 2] * third - ceiling) / np.sqrt(
            np.maximum(variance, 0.0) + steep * steep
        )
        freedom = self._of_places([one.freedom for one in self.every])
        each = np.maximum.accumulate(student_cdf(z, freedom), axis=1)
        cdf: Array = np.concatenate(self.shares) @ each
        return cdf

    def _of_places(self, values: Sequence[float]) -> Array:
        """Repeat what each way has for each of its strengths, shape (all places, 1)."""
        return np.repeat(np.array(values), [len(share) for share in self.shares])[:, None]


HIGH = 0.9
"""The quantile of the loads that counts as the highest seen."""


def _falling(awake: LinearFit, prior: Prior) -> Extrapolation:
    """Follow (2) or (3), fitted with the share of the queries that find the resource busy."""
    waking = unit(2) - prior.places[:, None] * unit(1)
    rows = waking / float(awake.coefficients[1])
    return Extrapolation.of(awake, rows, np.zeros(PLACES), prior, falls=True)


def _waking(part: float) -> Prior:
    """Believe what waking a processor costs, which for a second of it were this part of D + w."""
    most = min(LONGEST_WAKING * part, LARGEST_PART)
    return Prior.within(0.0, most, mean=0.0, deviation=WAKING * part)


def _falling_unseen(first: Part, steady: Extrapolation) -> Extrapolation:
    """Follow (3) where each query seen has woken the processor and the last ones will not.

    So are those of clients that send them evenly. The points are as likely as with a demand that
    stays, whatever w: that is believed alone.
    """
    prior = _waking(first.wakes_unseen or 0.0)
    slope, covariance = first.slope, first.straight.covariance
    coefficients = np.stack([first.straight.coefficients] * PLACES)
    coefficients[:, 2] = prior.places * slope
    rows = np.tile(np.diag([1.0, 1.0, 0.0]), (PLACES, 1, 1))
    rows[:, 2, 1] = prior.places
    spread = rows @ covariance @ rows.transpose(0, 2, 1)
    spread[:, 2, 2] += (prior.width * slope) ** 2
    ln_p = steady.ln_p + prior.ln_p
    return Extrapolation(coefficients, spread, ln_p, steady.freedom, falls=True, scale=steady.scale)


LOG_SHARED = (2.0, 3.0)
"""The power of X with which the odds of sharing a write of the log grow: 1 while one write is made
at a time, 2.4 to 3.2 were measured up to the peaks of durable commits."""


def _sharing(first: Part, log: SharedCost, awake: LinearFit) -> list[Extrapolation]:
    """Follow (3) by the share of the commits that were spared a write of the log."""
    high = first.t >= quantile(first.t, HIGH)
    seen = min(median(log.spared[high]), CEILING[0])
    at, odds = median(first.t[high]), seen / (1 - seen)
    most = min(LONGEST_WRITE * log.per_query / first.slope, LARGEST_PART)
    falling = _falling(awake, Prior.within(0.0, most, *WRITING))
    return [replace(falling, sharing=Sharing(at, odds, power)) for power in LOG_SHARED]


def _fall(falling: Extrapolation, shares: Array, busy: float, reach: float) -> float:
    """Expect how much of the demand at the highest loads is gone at the ceiling.

    The demand is D + w − w·busy; busy is the share that finds the resource busy at those loads,
    reach the throughput at which the resource is full if it stays.
    """
    part = _parts(falling)
    at_ceiling = max(float(falling.spared(np.array([reach]))[0]), busy)
    return float(shares @ (part * (at_ceiling - busy) / (1 - part * busy)))


def _parts(falling: Extrapolation) -> Array:
    """Compute w/(D + w) at each strength, shape (places,)."""
    whole, waking = falling.coefficients[:, 1], falling.coefficients[:, 2]
    parts: Array = np.clip(waking / np.maximum(whole, 1e-12), 0.0, LARGEST_PART)
    return parts


def _beside(extrapolation: Extrapolation, others: Sequence[LinearFit]) -> Extrapolation:
    """Add the other parts of a utilisation; their errors are independent."""
    coefficients = extrapolation.coefficients + sum(other.coefficients for other in others)
    covariance = extrapolation.covariance + sum(other.covariance for other in others)
    return replace(extrapolation, coefficients=coefficients, covariance=covariance)
