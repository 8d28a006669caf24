"""Limits that may change while the server runs: intervals are assessed by the latest ones.

max_connections is set, a quota or the affinity changes, a virtual machine gets more processors:
what was a share of another limit is not where the growth ends now.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from agent.window.intervals import Window
from agent.window.resource_utilisation import (
    AGENT_CONNECTIONS,
    CONNECTIONS,
    CPU,
    CPU_PARTS,
    OPEN_CONNECTIONS,
    PROCESSOR_COUNTS,
    SERVER_CPU,
)
from models.arrays import Array, Mask
from models.numerics import NEGLIGIBLE, ROUNDING

SHARES = {CONNECTIONS: CONNECTIONS, SERVER_CPU: SERVER_CPU, **dict.fromkeys((CPU, *CPU_PARTS), CPU)}
"""The utilisations, and the names of the limits that they are shares of."""


class PresentLimits(NamedTuple):
    """A window assessed by the latest limits; arrays of shape (intervals,)."""

    window: Window
    """The intervals that used no more than these are."""
    utilisations: dict[str, Array]
    """Their utilisations by name, as shares of the latest limits."""
    has_as_many_processors: Mask
    """Those with as many processors as the latest."""


def by_present_limits(window: Window) -> PresentLimits:
    """Assess the intervals of a window by the latest limits."""
    ratios = _ratios_to_latest(window)
    possible = _is_possible(window, ratios)
    window, ratios = window.select(possible), {name: r[possible] for name, r in ratios.items()}
    off = [np.abs(ratios[name] - 1) > NEGLIGIBLE for name in PROCESSOR_COUNTS]
    return PresentLimits(window, _shares_of_latest(window, ratios), ~np.any(off, axis=0))


def _is_possible(window: Window, ratios: Mapping[str, Array]) -> Mask:
    """Mark the intervals that used no more than the latest limits are, shape (intervals,)."""
    possible = np.ones(len(window), dtype=np.bool_)
    for name, ratio in ratios.items():
        used = window.utilisation_or_rate(name)
        possible &= ~(used * ratio > np.maximum(used, 1.0) * (1 + ROUNDING))
    return possible


def _shares_of_latest(window: Window, ratios: Mapping[str, Array]) -> dict[str, Array]:
    """Return the utilisations as shares of the latest limits; shape (intervals,) by name."""
    found = dict(window.utilisations)
    for name, limit in SHARES.items():
        if name in found:
            found[name] = found[name] * ratios[limit]
    for limit, count in PROCESSOR_COUNTS.items():
        if count in found:
            found[count] = found[count] / ratios[limit]
    return found


def limits_that_may_change(window: Window) -> dict[str, Array]:
    """Return max_connections and numbers of processors, shape (intervals,) by resource.

    NaN where not known.
    """
    opened = window.utilisation_or_rate(OPEN_CONNECTIONS) + AGENT_CONNECTIONS
    used = window.utilisation_or_rate(CONNECTIONS)
    limits = {CONNECTIONS: np.round(opened / np.where(used > 0, used, np.nan))}
    return limits | {n: window.utilisation_or_rate(count) for n, count in PROCESSOR_COUNTS.items()}


def _ratios_to_latest(window: Window) -> Mapping[str, Array]:
    """Compute each limit over the latest one, shape (intervals,) by name; 1 where not known."""
    return {name: _ratio_to_latest(limit) for name, limit in limits_that_may_change(window).items()}


def _ratio_to_latest(limit: Array) -> Array:
    known = limit[limit > 0]
    return np.where(limit > 0, limit / known[-1], 1.0) if len(known) else np.ones_like(limit)
