"""The current state of a target, from which a what-if question starts."""

from collections.abc import Iterator

import numpy as np

from agent.assessment.assessed_intervals import Disposition
from agent.assessment.snapshot import Load, Snapshot
from agent.config.resources import DISK, NETWORK
from agent.query_classes.attribution_snapshot import ClassesState, ClassState
from agent.query_classes.capacity_gain import demand_share, use_share
from agent.query_classes.class_registry import COMBINED_CLASSES
from agent.window.resource_utilisation import (
    CPU,
    SERVER_CPU,
    SERVER_SHARE_OF_CPU,
    is_busy_time,
    is_disk,
)
from models.arrays import Array
from models.attribution.capacity_gain import DemandShare
from models.capacity.assess import usable_limits
from models.capacity.contention_peak import NearestLimit, find_peak
from models.capacity.goodness_of_fit import MergedPoints
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import USL, Capacity
from models.numerics import TINY
from models.robust_regression import neighbour_deviation
from models.shared_constants import MIN_POINTS
from models.trust import Trust
from models.usl.law import Usl
from models.what_if import current_state as model
from models.what_if.current_state import (
    CurrentState,
    LimitDistribution,
    LimitKind,
    ResourceUse,
    SharesByClass,
    UseShare,
)

EXACT_WIDTH = 1e-6
"""The width, in ln X, of a limit of which only the value is known; also what counts as the same."""


def current_state_of(snapshot: Snapshot, now: float) -> CurrentState:
    """Return the state at `now` (Unix seconds); what is stale counts as not known."""
    capacity, load = snapshot.capacity(now), snapshot.current_load(now)
    classes = snapshot.current_classes(now)
    place, left = snapshot.operating_point(now), snapshot.headroom(now)
    is_loaded = place is not None and place[0] > 0 and place[1] > 0
    limits = tuple(_limits(capacity, classes)) if capacity else ()
    return CurrentState(
        capacity=capacity.value if capacity else None,
        lower=capacity.lower if capacity else None,
        upper=capacity.upper if capacity else None,
        distribution=capacity.distribution if capacity else None,
        is_trusted=capacity is not None and capacity.trust is Trust.TRUSTED,
        limits=limits,
        load=_measured_load(snapshot, capacity, *place) if place and is_loaded else None,
        uses=tuple(_uses(load, classes)) if load and load.throughput > 0 else (),
        law=_law(capacity),
        time_shares=_time_shares(classes),
        seen=_known_kinds(load, limits),
        is_past_peak=left is not None and left.overloaded,
    )


def digests_of(classes: ClassesState | None) -> list[str]:
    """Return the digests that may be asked about, those with the most statement time first."""
    if classes is None:
        return []
    named = [one for one in classes.classes if one.name.digest not in COMBINED_CLASSES]
    named.sort(key=lambda one: -one.recent.get("statement_time", 0.0))
    return list(dict.fromkeys(one.name.digest for one in named))


def _measured_load(
    snapshot: Snapshot, capacity: Capacity | None, n: float, x: float
) -> model.CurrentLoad:
    """Compute R = N/X, and its scatter between intervals with about the same X.

    Past the peak statements wait far longer at the same throughput: such intervals do not count.
    """
    points = snapshot.assessed.intervals
    if points is None:
        return model.CurrentLoad(x, n / x)
    counts = np.isin(points.dispositions, (Disposition.USED.value, Disposition.IDLE.value)) & (
        points.concurrency > 0
    )
    if capacity is not None and capacity.concurrency_upper is not None:
        counts &= points.concurrency <= capacity.concurrency_upper
    if np.count_nonzero(counts) < MIN_POINTS:
        return model.CurrentLoad(x, n / x)
    ns, xs = points.concurrency[counts], points.throughput[counts]
    scatter = neighbour_deviation(np.log(ns / xs), xs)
    return model.CurrentLoad(x, n / x, float(scatter), (xs, ns))


def _law(capacity: Capacity | None) -> Usl | None:
    if capacity is None or capacity.usl is None or capacity.usl_finding is not None:
        return None
    return capacity.usl.law


def _limits(capacity: Capacity, classes: ClassesState | None) -> Iterator[LimitDistribution]:
    """Yield the resource limits that matter, contention, and the capacity's other limits."""
    if capacity.value is None:
        return
    resource_limits = usable_limits(capacity.resource_limits)
    is_bound = any(resource_limit.resource == SERVER_CPU for resource_limit in resource_limits)
    for resource_limit in resource_limits:
        share = capacity.shares.get(resource_limit.resource, 0.0)
        kind = kind_of(resource_limit.resource, is_bound=is_bound)
        yield LimitDistribution(
            resource_limit.resource,
            kind,
            share,
            resource_limit.grid,
            resource_limit.cdf,
            _shares(classes, resource_limit),
        )
    grid, cdf = _contention_limit(capacity)
    yield LimitDistribution(USL, LimitKind.CONTENTION, capacity.shares.get(USL, 0.0), grid, cdf)
    known = {USL, *(resource_limit.resource for resource_limit in resource_limits)}
    for name, share in capacity.shares.items():
        if name not in known:
            place = np.log(capacity.value) + np.array([-EXACT_WIDTH, EXACT_WIDTH])
            kind = kind_of(name, is_bound=is_bound)
            yield LimitDistribution(
                name, kind, share, place, np.array([0.0, 1.0]), _shares(classes, name)
            )


def _contention_limit(capacity: Capacity) -> tuple[Array, Array]:
    """Return the limit by contention: as assessed, else as expected for the capacity."""
    peak = capacity.contention
    if peak is None:
        assert capacity.value is not None  # noqa: S101  (checked by `_limits`)
        nothing = MergedPoints(*(np.zeros(0) for _ in MergedPoints._fields))
        peak = find_peak(
            nothing, NearestLimit(capacity.value, capacity.concurrency), capacity.value
        )
    return peak.grid, 1 - peak.survival(peak.grid)


def kind_of(resource: str, *, is_bound: bool) -> LimitKind:
    """Return a resource's kind; `is_bound`: the server may use only a part of the host's CPUs."""
    if resource in (CPU, SERVER_CPU):
        return LimitKind.HOST_CPU if is_bound and resource == CPU else LimitKind.CPU
    if resource == USL:
        return LimitKind.CONTENTION
    if resource.startswith(NETWORK):
        return LimitKind.NETWORK
    if is_busy_time(resource):
        return LimitKind.DISK_TIME
    if resource.startswith(DISK):
        return LimitKind.DISK_BYTES if resource.endswith(":bytes") else LimitKind.DISK_OPERATIONS
    return LimitKind.SETTING


def _shares(classes: ClassesState | None, resource_limit: ResourceLimit | str) -> SharesByClass:
    """Compute the share of each digest in a limit's demand, summed over schemas."""
    if classes is None:
        return {}
    found = dict[str, UseShare]()
    for one in classes.classes:
        part = (
            _share_of_use(classes, one, resource_limit)
            if isinstance(resource_limit, str)
            else demand_share(classes, one, resource_limit)
        )
        if part is not None and one.name.digest not in COMBINED_CLASSES:
            before = found.get(one.name.digest, UseShare(0.0))
            at_limit = part.deviation / max(part.value, TINY)
            error = max(before.error, float(np.hypot(one.error or 0.0, at_limit)))
            found[one.name.digest] = UseShare(min(before.value + part.value, 1.0), error)
    return found


def _share_of_use(classes: ClassesState, one: ClassState, resource: str) -> DemandShare | None:
    share = use_share(classes, one, resource)
    return None if share is None else DemandShare(share)


def _time_shares(classes: ClassesState | None) -> SharesByClass:
    if classes is None:
        return {}
    times = [(one.name.digest, one.recent.get("statement_time", 0.0)) for one in classes.classes]
    whole, found = sum(time for _, time in times), dict[str, float]()
    for digest, time in times:
        if digest not in COMBINED_CLASSES and whole > 0:
            found[digest] = found.get(digest, 0.0) + time / whole
    return {digest: UseShare(min(part, 1.0)) for digest, part in found.items()}


def _uses(load: Load, classes: ClassesState | None) -> Iterator[ResourceUse]:
    """Yield a query's use of the processor, the busiest disk and the busiest link."""
    x, used = load.throughput, load.resources
    name = SERVER_CPU if load.cpus.get(SERVER_CPU, np.inf) < load.cpus.get(CPU, np.inf) else CPU
    if name in used and name in load.cpus:
        busy, cpus = used[name], load.cpus[name]
        own = min(used.get(SERVER_SHARE_OF_CPU, busy), busy) if name == CPU else busy
        seconds = own * cpus / x
        shares = _shares(classes, name)
        busy, own = min(busy, 1.0), min(own, 1.0)
        yield ResourceUse(LimitKind.CPU, seconds, busy, own, cpus, shares=shares, name=name)
    for kind, names in (
        (LimitKind.DISK_TIME, [r for r in used if is_disk(r)]),
        (LimitKind.NETWORK, [r for r in used if r.startswith(NETWORK)]),
    ):
        busiest = max(names, key=lambda r: used[r], default=None)
        if busiest is not None:
            busy = min(used[busiest], 1.0)
            shares = _shares(classes, busiest)
            seconds = busy / x
            yield ResourceUse(
                kind, seconds, busy, busy, is_waited_for=False, shares=shares, name=busiest
            )


def _known_kinds(load: Load | None, limits: tuple[LimitDistribution, ...]) -> frozenset[LimitKind]:
    """Return the kinds of resource of which a use or a limit is known."""
    used = {kind_of(name, is_bound=False) for name in (load.resources if load else ())}
    return frozenset(used | {limit.kind for limit in limits})
