"""The headroom of a target in the units of its business metrics, from a snapshot."""

from agent.assessment.snapshot import STALE_INTERVALS, BusinessState, Snapshot
from agent.business_metrics.value_series import ValueSeries
from agent.config.business_metrics import BusinessMetric
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window
from models.business_metric_headroom import UnitHeadroom, unit_headroom


def headroom_in_unit(
    series: ValueSeries, window: Window, snapshot: Snapshot, now: ClockPair
) -> UnitHeadroom:
    """Compute the headroom from the values in the intervals of the present workload."""
    load, capacity = snapshot.current_load(now.unix), snapshot.capacity(now.unix)
    changed = _changed_at(snapshot)
    if changed is not None:
        window = window.select(window["end"] > now.to_monotonic(changed))
    seen = series.interval_averages(window, snapshot.assessed.source)
    throughput = load.throughput if load else None
    return unit_headroom(seen, capacity, throughput, snapshot.headroom(now.unix))


def business_state(
    metric: BusinessMetric, series: ValueSeries, found: UnitHeadroom, now: ClockPair
) -> BusinessState:
    """Join the latest value with the latest headroom."""
    at, value = series.latest or (None, None)
    return BusinessState(
        name=metric.name,
        unit=metric.unit,
        at=None if at is None else now.to_unix(at),
        value=value,
        stale_after=STALE_INTERVALS * metric.interval,
        unit_headroom=found,
    )


def _changed_at(snapshot: Snapshot) -> float | None:
    """Return when the workload changed within the window, Unix seconds; None if it did not."""
    capacity, intervals = snapshot.assessed.capacity, snapshot.assessed.intervals
    change = capacity.regimes.change if capacity and capacity.regimes else None
    return float(intervals.at[change.index]) if change and intervals else None
