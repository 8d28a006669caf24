"""Prediction of capacity, residence time and the first limit after changes, with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.numerics import QUANTILES
from models.what_if.changes import Changes
from models.what_if.current_state import DISK_KINDS, CurrentLoad, CurrentState, LimitKind
from models.what_if.effects import limit_factors
from models.what_if.measured_at_other_load import from_measured
from models.what_if.predicted_value import PredictedValue
from models.what_if.residence import residence_times
from models.what_if.uncertainty_draws import Draws, draws_of, widen_untrusted
from models.what_if.unknown_effects import unknown_effects


@dataclass(frozen=True)
class Prediction:
    """The result of one set of changes; None where it is not known, and `unknown` says why."""

    capacity: PredictedValue | None
    """Queries/s."""
    gain: PredictedValue | None
    """The capacity as a ratio to today's, less 1."""
    residence_time: PredictedValue | None
    """Seconds, at today's load times the change of the load."""
    limit: str | None
    """The limit that most likely ends the growth then."""
    limits: Mapping[str, float]
    """The probability of each limit to be that one."""
    unknown: tuple[str, ...] = ()
    """Sentences: what cannot be predicted, and why."""


@dataclass(frozen=True)
class Answer:
    """The predictions for today, for all changes together, and for each of them alone."""

    today: Prediction
    together: Prediction
    alone: tuple[tuple[str, Prediction], ...]


def what_if(today: CurrentState, changes: Changes) -> Answer:
    """Predict the effect of the changes, together and each alone."""
    draws = draws_of(today)
    return Answer(
        today=_predict(today, Changes(), draws),
        together=_predict(today, changes, draws),
        alone=tuple((name, _predict(today, one, draws)) for name, one in changes.alone()),
    )


def _predict(today: CurrentState, changes: Changes, draws: Draws) -> Prediction:
    """Predict what is known; nothing is, where the effect of one change is not known."""
    unknown = unknown_effects(today, changes)
    if unknown:
        return Prediction(None, None, None, None, {}, unknown)
    factors, wide = limit_factors(today, changes, draws), widen_untrusted(today, draws)
    then = draws.limits * factors
    lowest = _lowest_limit(then, draws)
    missing: list[str] = []
    capacity, gain, names = None, None, dict[str, float]()
    if today.capacity is None or not len(then):
        missing.append("The capacity is not known yet, so its change cannot be predicted.")
    else:
        capacity = _estimate_capacity(today, lowest, draws)
        gain = _estimate_gain(today, lowest, draws)
        names = _limit_probabilities(today, then)
    full_at = _lowest_limit(wide.limits * factors, wide)
    residence = _estimate_residence_time(today, changes, wide, full_at, missing)
    limit = max(names, key=lambda name: names[name], default=None)
    return Prediction(capacity, gain, residence, limit, names, tuple(missing))


def _lowest_limit(limits: Array, draws: Draws) -> Array:
    """Find the lowest of the limits, shape (limits, draws); the capacity where none is known."""
    lowest: Array = limits.min(axis=0) if len(limits) else draws.capacity
    return lowest


def _estimate_capacity(today: CurrentState, lowest: Array, draws: Draws) -> PredictedValue:
    """Scale today's numbers by the ratio of the quantiles, which is 1 without a change."""
    value = today.capacity or np.nan
    low, middle, high = np.quantile(lowest, QUANTILES) / np.quantile(draws.capacity, QUANTILES)
    upper = None if today.upper is None else today.upper * high
    return _ordered_estimate(value * middle, (today.lower or value) * low, upper)


def _estimate_gain(today: CurrentState, lowest: Array, draws: Draws) -> PredictedValue:
    low, middle, high = np.quantile(lowest / draws.capacity, QUANTILES) - 1
    return _ordered_estimate(middle, low, None if today.upper is None else high)


def _limit_probabilities(today: CurrentState, then: Array) -> dict[str, float]:
    """Count how often each limit is the lowest; today's probabilities where nothing changes."""
    lowest = np.argmin(then, axis=0)
    counts = np.bincount(lowest, minlength=len(today.limits)) / then.shape[1]
    shares = {limit.name: 0.0 for limit in today.limits}
    for limit, share in zip(today.limits, counts, strict=True):
        shares[limit.name] += float(share)
    return shares


def _estimate_residence_time(
    today: CurrentState, changes: Changes, draws: Draws, lowest: Array, missing: list[str]
) -> PredictedValue | None:
    """Estimate R; None, and a reason in `missing`, if R is not known or the load is too high."""
    load = _load_with_known_times(today, changes, missing)
    if load is None:
        return None
    start, start_load, remaining = from_measured(today, load, changes)
    grows = start_load is load and changes.load / changes.servers != 1
    if grows and today.law is None and not today.uses:
        missing.append(
            "The residence time cannot be predicted: neither the law nor a resource predicts how "
            "it grows with the load."
        )
        return None
    times = residence_times(start, start_load, remaining, draws)
    if changes != Changes():
        times = times * np.exp(start_load.scatter * draws.residence_normal)
        times = np.where(load.throughput * changes.load >= lowest, np.inf, times)
    low, middle, high = np.quantile(times, QUANTILES, method="inverted_cdf")
    if not np.isfinite(middle):
        limit = "more than a resource can do" if today.capacity is None else "above the capacity"
        missing.append(f"The load would be {limit}: residence times grow without bound.")
        return None
    return _ordered_estimate(middle, low, float(high) if np.isfinite(high) else None)


def _load_with_known_times(
    today: CurrentState, changes: Changes, missing: list[str]
) -> CurrentLoad | None:
    """Return today's load; None, and a reason in `missing`, if R cannot be predicted from it."""
    resource = _resource_without_time(today, changes)
    if today.load is None:
        missing.append("Today's residence time is not known, so its change cannot be predicted.")
    elif today.is_past_peak and changes != Changes():
        missing.append(
            "The residence time cannot be predicted: the server is past its peak, where throughput "
            "does not show the load."
        )
    elif resource:
        missing.append(
            f"The residence time cannot be predicted: how long a query uses the {resource} is "
            "not known."
        )
    else:
        return today.load
    return None


def _resource_without_time(today: CurrentState, changes: Changes) -> str:
    """Return the resource whose time per query a change depends on but is not known, or ''."""
    known = {use.kind for use in today.uses}
    if LimitKind.CPU not in known and (changes.cpu_speed != 1 or changes.cores != 1):
        return "processor"
    disk = changes.disk_rate != 1 or changes.disk_latency != 1
    if disk and not known & set(DISK_KINDS):
        return "disk"
    return "network" if LimitKind.NETWORK not in known and changes.network != 1 else ""


def _ordered_estimate(value: float, lower: float, upper: float | None) -> PredictedValue:
    low = float(min(lower, value))
    return PredictedValue(float(value), low, None if upper is None else float(max(upper, value)))
