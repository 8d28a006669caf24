"""The residence time at another load, where the window's intervals had about that load."""

from dataclasses import replace
from math import hypot, log

from models.what_if.changes import Changes
from models.what_if.current_state import (
    MAX_INDEPENDENT,
    SAME_LOAD_LOG_RATIO,
    CurrentLoad,
    CurrentState,
    MeasuredLoad,
    ResourceUse,
)


def measured_load_at(load: CurrentLoad, changes: Changes) -> MeasuredLoad | None:
    """Return what was measured at about the load of each server after the changes.

    None where that load is about today's, or too few intervals had it.
    """
    factor = changes.load / changes.servers
    if abs(log(factor)) <= SAME_LOAD_LOG_RATIO:
        return None
    found = load.mean_near(load.throughput * factor)
    return found if found is not None and found.intervals >= MAX_INDEPENDENT else None


def from_measured(
    today: CurrentState, load: CurrentLoad, changes: Changes
) -> tuple[CurrentState, CurrentLoad, Changes]:
    """Return the state at the measured load, and the changes that remain from there.

    All are returned unchanged where nothing was measured at such a load.
    """
    measured = measured_load_at(load, changes)
    if measured is None:
        return today, load, changes
    there = replace(
        load,
        throughput=measured.throughput,
        residence_time=measured.residence_time,
        scatter=hypot(load.scatter, load.scatter_of_mean(measured.intervals)),
    )
    grown = measured.throughput / load.throughput
    remaining = changes.load / changes.servers / grown
    uses = tuple(_scale_use(use, grown) for use in today.uses)
    return (
        replace(today, load=there, uses=uses),
        there,
        replace(changes, load=remaining, servers=1.0),
    )


def _scale_use(use: ResourceUse, grown: float) -> ResourceUse:
    """Scale the server's own work on a resource, and so its utilisation."""
    own = use.own_utilisation * grown
    return replace(
        use, own_utilisation=own, utilisation=use.utilisation - use.own_utilisation + own
    )
