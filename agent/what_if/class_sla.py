"""The query classes that have an SLA: how far each is from it, and which breaks it first."""

from collections.abc import Sequence

import numpy as np

from agent.assessment.snapshot import ClassSlasState, ClassSlaState, Snapshot
from agent.config.class_slas import ClassSla
from agent.query_classes.recent_response_times import (
    RecentResponseTimes,
    RecentTimes,
    min_calls,
)
from agent.support.clock_pair import ClockPair
from agent.what_if.current_state import current_state_of
from agent.what_if.target_sla import headroom_without_prediction
from agent.window.intervals import Window
from models.trust import Trust
from models.what_if.class_sla_headroom import ClassHeadroom, MeasuredClass, class_headroom
from models.what_if.current_state import CurrentState
from models.what_if.predicted_value import PredictedValue
from models.what_if.sla_result import SlaReason


def class_slas_of(
    snapshot: Snapshot,
    slas: Sequence[ClassSla],
    times: RecentResponseTimes,
    window: Window,
    now: ClockPair,
) -> ClassSlasState:
    """Find the load at which each class breaks its SLA, as known at `now`."""
    today, capacity = current_state_of(snapshot, now.unix), snapshot.capacity(now.unix)
    known = {
        sla: _if_enough_calls(times.latest(sla.digest, sla.quantile, now.monotonic), sla.quantile)
        for sla in slas
    }
    measured = {
        sla: MeasuredClass(recent.times, x, sla.quantile, sla.seconds)
        for sla, recent in known.items()
        if recent is not None and (x := _throughput_during(window, recent, today)) is not None
    }
    refused = headroom_without_prediction(snapshot, today, np.inf, now.unix)
    if refused is not None:
        found = [ClassHeadroom(reason=refused.reason)] * len(measured)
    else:
        found = class_headroom(today, list(measured.values()))
    headrooms = dict(zip(measured, found, strict=True))
    is_read = times.has_readings(now.monotonic)
    missing = SlaReason.FEW_CALLS if is_read else SlaReason.NO_HISTOGRAMS
    is_known = any(one.load_ratio is not None for one in found)
    return ClassSlasState(
        at=now.unix,
        classes=tuple(
            _state(sla, recent, headrooms.get(sla) or _unknown_headroom(recent, missing))
            for sla, recent in known.items()
        ),
        trust=capacity.trust if is_known and capacity is not None else Trust.NOT_IDENTIFIABLE,
    )


def _if_enough_calls(recent: RecentTimes | None, quantile: float) -> RecentTimes | None:
    return recent if recent and recent.times.calls >= min_calls(quantile) else None


def _throughput_during(window: Window, recent: RecentTimes, today: CurrentState) -> float | None:
    """Compute the throughput while the statements were counted; today's where not known."""
    ends, x = window["end"], window["throughput"]
    then = (ends > recent.start) & (ends - window["seconds"] < recent.end) & (x > 0)
    if then.any():
        return float(np.average(x[then], weights=window["seconds"][then]))
    return today.load.throughput if today.load is not None else None


def _unknown_headroom(recent: RecentTimes | None, missing: SlaReason) -> ClassHeadroom:
    return ClassHeadroom(reason=missing if recent is None else SlaReason.NO_LOAD)


def _state(sla: ClassSla, recent: RecentTimes | None, found: ClassHeadroom) -> ClassSlaState:
    present, calls = None, 0
    if recent is not None:
        low, high = recent.times.interval(sla.quantile)
        present = PredictedValue(float(recent.times.quantile(sla.quantile)), low, high)
        calls = round(recent.times.calls)
    return ClassSlaState(sla.digest, sla.quantile, sla.seconds, present, calls, found)
