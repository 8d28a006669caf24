"""What changes give: capacity, residence time and the first limit, each with its interval."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.numerics import QUANTILES
from models.usl.law import Array
from models.what_if.changes import Changes
from models.what_if.current_state import DISK_KINDS, CurrentState, Kind
from models.what_if.effects import limit_factors
from models.what_if.measured_starting_point import from_measured
from models.what_if.posterior_draws import Draws, draws_of
from models.what_if.residence import residence_times
from models.what_if.unanswerable import why_unknown


@dataclass(frozen=True)
class Estimate:
    """A number with its 5 % and 95 % quantile; None for `upper`: nothing bounds it."""

    value: float
    lower: float
    upper: float | None


@dataclass(frozen=True)
class Prediction:
    """What one set of changes gives; None where it cannot be told, and `unknown` says why."""

    capacity: Estimate | None
    """Queries/s."""
    gain: Estimate | None
    """The capacity as a ratio to today's, less 1."""
    residence_time: Estimate | None
    """Seconds, at today's load times the change of the load."""
    limit: str | None
    """What most likely ends the growth then."""
    limits: Mapping[str, float]
    """The probability of each to be it."""
    unknown: tuple[str, ...] = ()
    """Sentences: what cannot be told, and why."""


@dataclass(frozen=True)
class Answer:
    """Today, all changes together, and each of them alone."""

    today: Prediction
    together: Prediction
    alone: tuple[tuple[str, Prediction], ...]


def what_if(today: CurrentState, changes: Changes) -> Answer:
    """Predict what the changes give together, and each alone."""
    draws = draws_of(today)
    return Answer(
        today=_predict(today, Changes(), draws),
        together=_predict(today, changes, draws),
        alone=tuple((name, _predict(today, one, draws)) for name, one in changes.alone()),
    )


def _predict(today: CurrentState, changes: Changes, draws: Draws) -> Prediction:
    """Answer what is known; a change whose effect is not known leaves everything open."""
    untold = why_unknown(today, changes)
    if untold:
        return Prediction(None, None, None, None, {}, untold)
    then = draws.limits * limit_factors(today, changes, draws)
    missing: list[str] = []
    capacity, gain, names = None, None, dict[str, float]()
    lowest = then.min(axis=0) if len(then) else draws.capacity
    if today.capacity is None or not len(then):
        missing.append("The capacity is not known yet, so its change cannot be predicted.")
    else:
        capacity = _capacity(today, lowest, draws)
        gain = _gain(today, lowest, draws)
        names = _first(today, then)
    residence = _residence(today, changes, draws, lowest, missing)
    limit = max(names, key=lambda name: names[name], default=None)
    return Prediction(capacity, gain, residence, limit, names, tuple(missing))


def _capacity(today: CurrentState, lowest: Array, draws: Draws) -> Estimate:
    """Scale today's numbers by how the quantiles move: without a change they are today's."""
    value = today.capacity or np.nan
    low, middle, high = np.quantile(lowest, QUANTILES) / np.quantile(draws.capacity, QUANTILES)
    upper = None if today.upper is None else today.upper * high
    return _ordered(value * middle, (today.lower or value) * low, upper)


def _gain(today: CurrentState, lowest: Array, draws: Draws) -> Estimate:
    low, middle, high = np.quantile(lowest / draws.capacity, QUANTILES) - 1
    return _ordered(middle, low, None if today.upper is None else high)


def _first(today: CurrentState, then: Array) -> dict[str, float]:
    """Count how often each limit is the lowest; today's probabilities where nothing changes."""
    lowest = np.argmin(then, axis=0)
    counts = np.bincount(lowest, minlength=len(today.limits)) / then.shape[1]
    shares = {limit.name: 0.0 for limit in today.limits}
    for limit, share in zip(today.limits, counts, strict=True):
        shares[limit.name] += float(share)
    return shares


def _residence(
    today: CurrentState, changes: Changes, draws: Draws, lowest: Array, missing: list[str]
) -> Estimate | None:
    """Quantiles of R; None where the load is more than the capacity, or R is not known today."""
    load = today.load
    if load is None:
        missing.append("Today's residence time is not known, so its change cannot be predicted.")
        return None
    no_time_on = _times_missing(today, changes)
    if no_time_on:
        missing.append(
            f"The residence time cannot be told: how long a query uses the {no_time_on} is unknown."
        )
        return None
    there, near, left = from_measured(today, load, changes)
    grows = near is load and changes.load / changes.servers != 1
    if grows and today.law is None and not today.uses:
        missing.append(
            "The residence time cannot be told: neither the law nor a resource says how it grows "
            "with the load."
        )
        return None
    times = residence_times(there, near, left, draws)
    if changes != Changes():
        times = times * np.exp(near.scatter * draws.measured)
        times = np.where(load.throughput * changes.load >= lowest, np.inf, times)
    low, middle, high = np.quantile(times, QUANTILES, method="inverted_cdf")
    if not np.isfinite(middle):
        missing.append("The load would be above the capacity: residence times grow without bound.")
        return None
    return _ordered(middle, low, float(high) if np.isfinite(high) else None)


def _times_missing(today: CurrentState, changes: Changes) -> str:
    """Name the resource whose time per query a change needs, and that is not known."""
    known = {use.kind for use in today.uses}
    if Kind.CPU not in known and (changes.cpu_speed != 1 or changes.cores != 1):
        return "processor"
    disk = changes.disk_rate != 1 or changes.disk_latency != 1
    if disk and not known & set(DISK_KINDS):
        return "disk"
    return "network" if Kind.NETWORK not in known and changes.network != 1 else ""


def _ordered(value: float, lower: float, upper: float | None) -> Estimate:
    low = float(min(lower, value))
    return Estimate(float(value), low, None if upper is None else float(max(upper, value)))
