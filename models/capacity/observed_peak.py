"""The peak of throughput over concurrency, where intervals beyond it were observed.

Below its peak a server completes more, the more statements run at once. Where a resource is full
and 50 % more statements complete no more, the peak lies in between and needs no extrapolation: the
capacity is the throughput around it (the saturation point of a closed network, P. Denning, J.
Buzen 1978). Without a full resource, statements may only have piled up for a while: see `plateau`.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Array, Mask
from models.capacity.demand_extrapolation import CEILING
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.thinning import LOADS_PER_OCTAVE
from models.distribution_functions import NORMAL_95
from models.numerics import median
from models.robust_regression import medians
from models.shared_constants import (
    FAR_RATIO,
    MIN_LASTING,
    MIN_POINTS,
    NEAR_SHARE,
    QUERY_VARIATION,
)
from models.trust import FULL_LOAD, MAX_ERROR

PLATEAU_END_RATIO = 3.0
"""Where throughput stays level, the peak ends at this multiple of the concurrency that suffices."""


@dataclass(frozen=True)
class ObservedPeak:
    """The highest throughput, and the concurrency at which it was served."""

    throughput: float
    """Queries/s."""
    error: float
    """The standard deviation of its ln: between intervals, and where none was seen."""
    concurrency: float
    """N at the peak, threads."""
    concurrency_upper: float
    """From this N on the server is past its peak, threads."""
    resource: str
    """The resource that is full beyond it."""


def find_observed_peak(seen: Observations) -> ObservedPeak | None:
    """Find the peak if intervals beyond it were seen; None where throughput may still grow."""
    known = seen.is_loaded_and_exact
    return _peak_among_intervals(seen, known) or _peak_between_intervals(seen, known)


def saturated_throughput(seen: Observations, capacity: float | None) -> float:
    """Find the 5 % quantile of throughput (queries/s) where nearly all connections had a statement.

    Then the clients get what the server serves: no capacity is certainly above that. It counts
    where most statements wait: they are more than the estimated capacity needs. Infinity where the
    connections are not known, where too few such intervals were seen, and where they only piled up.
    """
    connections, r = seen.usual_connections, seen.uncontended_residence_time
    if capacity is None or connections is None or r is None or np.isnan(seen.connections).all():
        return np.inf
    least = max(NEAR_SHARE * connections, FAR_RATIO * r * capacity)
    saturated = seen.loaded & (seen.concurrency >= least)
    ln_x = np.log(seen.throughput[saturated])
    if len(ln_x) < MIN_POINTS or median(ln_x) < np.log(NEAR_SHARE * capacity):
        return np.inf
    return float(np.exp(median(ln_x))) / throughput_spread(_interval_deviation(ln_x))


def throughput_spread(deviation: float) -> float:
    """Return the ratio of a median throughput to its 5 % quantile, given the deviation of ln X.

    The cost of a query varies as well.
    """
    return float(np.exp(NORMAL_95 * np.hypot(deviation, QUERY_VARIATION)))


def _peak_among_intervals(seen: Observations, known: Mask) -> ObservedPeak | None:
    """Find the peak where intervals around it were seen.

    Where no interval has a concurrency between that of the peak and those far beyond it, the peak
    may lie there, up to X/U by the utilisation law: the middle is taken, with half of the
    difference as its uncertainty.
    """
    n, x = seen.concurrency, seen.throughput
    cells = _cells(n, x, known)
    if len(cells) == 0:
        return None
    at_peak = cells[:, 1] >= (1 - MAX_ERROR) * cells[:, 1].max()
    knee = float(cells[at_peak, 0][0])
    far = known & (n >= FAR_RATIO * knee)
    if np.count_nonzero(far) < MIN_LASTING or median(x[far]) > cells[:, 1].max():
        return None
    resource = _resource_full_beyond(seen, far, known & _in_cells(n, cells[at_peak, 0]))
    if resource is None:
        return None
    upper = min(_end_of_peak(cells, at_peak), PLATEAU_END_RATIO * knee)
    inside = cells[at_peak & (cells[:, 0] <= upper)]
    best = float(inside[np.argmax(inside[:, 1]), 0])
    # all intervals between both ends: the cells at the peak alone would be biased upwards
    around = known & (_cell(n) >= _cell(cells[at_peak, 0])[0]) & (n <= upper)
    ln_x = np.log(x[around])
    further = 0.0
    if _is_gap_above(cells, at_peak):
        used = _median_use(seen, seen.resource(resource), around)
        further = max(float(np.log(CEILING[0] / used)), 0.0) / 2
    error = float(np.hypot(_interval_deviation(ln_x), further))
    return ObservedPeak(float(np.exp(median(ln_x) + further)), error, best, upper, resource)


def _peak_between_intervals(seen: Observations, known: Mask) -> ObservedPeak | None:
    """Find the peak between intervals in which a resource is nearly full, and those past it.

    The load rose so fast that no interval lies around it. Nearly full with so few statements, the
    resource allows X/U at most, by the utilisation law, and the throughput past the peak is the
    least: the middle is taken, with half of the difference as its uncertainty.
    """
    for resource in _possible_limits(seen):
        if np.count_nonzero(known & resource.full) < MIN_LASTING:
            continue
        used = resource.use_for_server_queries(seen.throughput)
        is_used = known & (used >= NEAR_SHARE)
        full, nearly = is_used & resource.full, is_used & ~resource.full
        if min(np.count_nonzero(full), np.count_nonzero(nearly)) < MIN_LASTING:
            continue
        n, x = seen.concurrency, seen.throughput
        knee = median(n[nearly])
        far = full & (n >= PLATEAU_END_RATIO * knee)
        if np.count_nonzero(far) < MIN_LASTING or np.count_nonzero(full & ~far) >= MIN_LASTING:
            continue
        most = median(x[nearly] / np.maximum(resource.relative_use, used)[nearly])
        least = median(x[far])
        error = abs(np.log(most / least)) / 2
        middle = max(least, np.sqrt(least * most))
        return ObservedPeak(
            float(middle),
            float(error),
            FAR_RATIO * knee,
            PLATEAU_END_RATIO * knee,
            resource.name,
        )
    return None


def _interval_deviation(ln_x: Array) -> float:
    """Compute the deviation of single intervals, not of their mean: the next may be any of them."""
    return float(np.std(ln_x))


def _cell(n: Array) -> Array:
    """Number the cell of each concurrency; NaN where that is not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cell: Array = np.floor(LOADS_PER_OCTAVE * np.log2(n))
    return cell


def _in_cells(n: Array, others: Array) -> Mask:
    """Mark each concurrency that is in the cell of one of the others."""
    return np.asarray((_cell(n)[:, None] == _cell(others)).any(axis=1))


def _cells(n: Array, x: Array, known: Mask) -> Array:
    """Compute median N and X of every cell with enough intervals, shape (cells, 2), N rising."""
    n, x = n[known], x[known]
    cell = _cell(n)
    order = np.lexsort((x, cell))
    starts = np.flatnonzero(np.diff(cell[order], prepend=np.nan))
    sizes = np.diff(starts, append=len(n))
    starts, sizes = starts[sizes >= MIN_LASTING], sizes[sizes >= MIN_LASTING]
    ordered = np.stack([np.sort(n), x[order]], axis=1)  # cells rise with N
    middles: Array = (ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2]) / 2
    return middles


def _is_gap_above(cells: Array, at_peak: Mask) -> bool:
    """Return whether no concurrency between that of the peak and those far beyond it was seen."""
    last = int(np.flatnonzero(at_peak)[-1])
    return last + 1 < len(cells) and cells[last + 1, 0] >= FAR_RATIO * cells[last, 0]


def _end_of_peak(cells: Array, at_peak: Mask) -> float:
    """Interpolate the concurrency at which throughput falls below the peak's level."""
    last = int(np.flatnonzero(at_peak)[-1])
    n, x = cells[last]
    if last + 1 == len(cells):
        return float(PLATEAU_END_RATIO * n)
    n_next, x_next = cells[last + 1]
    share = (x - (1 - MAX_ERROR) * cells[:, 1].max()) / (x - x_next)
    return float(n * (n_next / n) ** share)


def _resource_full_beyond(seen: Observations, far: Mask, around: Mask) -> str | None:
    """Find the resource that was full in most of the intervals far beyond, and busy at the peak."""
    full = {
        r.name: _median_use(seen, r, far)
        for r in _possible_limits(seen)
        if _is_limit_of_peak(seen, r, far, around)
    }
    return max(full, key=lambda name: full[name], default=None)


def _possible_limits(seen: Observations) -> list[Resource]:
    """List the resources that end the growth of throughput when they are full."""
    return [
        r
        for r in seen.resources
        if not (r.has_configured_limit or r.is_busy_time or r.is_fill_level)
    ]


def _is_full(seen: Observations, resource: Resource) -> Mask:
    """Mark where the server fills it, or where most of the statements wait for it.

    Statements that come in bursts wait for a processor that is idle afterwards.
    """
    nearly = resource.relative_use >= FULL_LOAD
    full: Mask = resource.full | (nearly & seen.queued_for(resource))
    return full & ~resource.filled_by_others


def _is_limit_of_peak(seen: Observations, resource: Resource, far: Mask, around: Mask) -> bool:
    """Return whether it is full beyond the peak, and nearly at it.

    Else it was filled by other, or more expensive, queries: a report, a backup.
    """
    full = _is_full(seen, resource)
    mostly = 2 * np.count_nonzero(full & far) > np.count_nonzero(far)
    return bool(mostly and _median_use(seen, resource, around) >= NEAR_SHARE)


def _median_use(seen: Observations, resource: Resource, which: Mask) -> float:
    """Compute the median use of the resource for the server's queries in these intervals."""
    return float(medians(resource.use_for_server_queries(seen.throughput)[which]))
