"""Snapshots as JSON: all results, their inputs, and what was left out.

Numbers are in base units and times in Unix seconds; what is not known is null. docs/snapshot.md
lists every key.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Any

from agent import __version__
from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import (
    BusinessState,
    ClassSlasState,
    ClassSlaState,
    ForecastState,
    SlaState,
    Snapshot,
)
from agent.config.durations import duration_text
from agent.query_classes.class_time_splits import class_key
from agent.window.recent_time_split import TimeUse
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import Capacity
from models.time_split.limiting_resource import LimitedBy
from models.time_split.time_parts import TimeSplit
from models.usl.fit import UslFit
from models.usl.peak_posterior import CredibleInterval
from models.what_if.predicted_value import PredictedValue

JsonObject = dict[str, Any]


def snapshots_as_json(snapshots: Iterable[Snapshot], now: float) -> str:
    """Return one JSON document; `now` in Unix seconds decides what is stale.

    It is serialised target by target: their objects take several times the memory of the text.
    """
    return "".join(snapshots_in_parts(sorted(snapshots, key=lambda s: s.target), now, _as_text))


def snapshots_in_parts(
    snapshots: Iterable[Snapshot], now: float, as_text: Callable[[JsonObject], str]
) -> Iterator[str]:
    """Yield the same document in parts: one for each target, in this order, and the last."""
    before = as_text(snapshots_object([], now)).removesuffix("]}")
    for snapshot in snapshots:
        yield before + as_text(without_non_finite(target_object(snapshot, now)))
        before = ", "
    yield ("" if before == ", " else before) + "]}"


def _as_text(value: JsonObject) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def snapshots_object(snapshots: Iterable[Snapshot], now: float) -> JsonObject:
    """Return the document before it is serialised."""
    targets = [target_object(s, now) for s in sorted(snapshots, key=lambda s: s.target)]
    document: JsonObject = without_non_finite(
        {"version": __version__, "at": now, "targets": targets}
    )
    return document


def target_object(snapshot: Snapshot, now: float) -> JsonObject:
    """Return one element of `targets`; NaN and infinity are not replaced yet."""
    capacity, law, refusal = (
        snapshot.capacity(now),
        snapshot.current_law(now),
        snapshot.law_refusal(now),
    )
    return {
        "target": snapshot.target,
        "server": snapshot.health.server or None,
        "up": snapshot.health.up,
        "load": _load_object(snapshot, now),
        "time": _time_object(snapshot.current_time_use(now)),
        "class_time": _class_time_objects(snapshot, now),
        "assessed_at": snapshot.assessed.at,
        "waiting": snapshot.assessed.waiting or None,
        "concurrency_source": snapshot.assessed.source,
        "capacity": capacity and _capacity_object(capacity, snapshot, now),
        "forecast": _forecast_object(snapshot.current_forecast(now)),
        "residence_time": snapshot.residence_time(now),
        "sla": _sla_object(snapshot.current_sla(now)),
        "class_slas": _class_slas_object(snapshot.current_class_slas(now)),
        "business_metrics": [_business_object(one) for one in snapshot.current_business(now)],
        "resource_limits": [
            _resource_limit_object(resource_limit) for resource_limit in capacity.resource_limits
        ]
        if capacity
        else [],
        "usl": law and _law_object(law),
        "usl_refused": refusal and {"reason": refusal.check, "text": refusal.check.sentence},
        "workload": _workload_object(snapshot, capacity),
        "outliers": _outlier_objects(snapshot) if capacity else [],
        "outliers_total": dict(snapshot.assessed.outlier_counts.outliers),
        "points": _point_objects(snapshot) if capacity else [],
        "markers": [marker_object(marker) for marker in snapshot.markers],
    }


def marker_object(marker: Marker) -> JsonObject:
    """Return a deploy marker; `target` is null if it concerns all targets."""
    return {"at": marker.at, "name": marker.name, "target": marker.target or None}


def _load_object(snapshot: Snapshot, now: float) -> JsonObject | None:
    load = snapshot.current_load(now)
    if load is None:
        return None
    return {
        "at": load.end,
        "throughput": load.throughput,
        "concurrency": dict(load.concurrency),
        "excluded_threads": dict(load.excluded),
        "utilisation": dict(load.resources),
        "cpu_clock": load.cpu_clock_rate,
        "cpu_source": load.cpu_source,
    }


def _time_object(use: TimeUse | None) -> JsonObject | None:
    if use is None:
        return None
    profile = use.fitted_profile
    return {
        "at": use.at,
        "seconds": use.seconds,
        **_split_object(use.split, use.limited_by),
        "excess": use.split.excess,
        "over_explained": use.split.over_explained,
        "unknown": sorted(use.split.unknown),
        "disk_learned": profile
        and {
            "sequential_bytes_per_second": profile.sequential_bytes_per_second,
            "random_seconds": profile.random_seconds,
        },
    }


def _class_time_objects(snapshot: Snapshot, now: float) -> list[JsonObject]:
    splits, state = snapshot.class_splits(now), snapshot.classes
    return [
        {
            "schema": one.name.schema,
            "digest": one.name.digest,
            **_split_object(split, LimitedBy.of(split)),
        }
        for one in (state.classes if state else ())
        if (split := splits.get(class_key(one)))
    ]


def _split_object(split: TimeSplit, limited: LimitedBy | None) -> JsonObject:
    return {
        "statement_time": split.statement_time,
        "shares": dict(split.known_shares),
        "limited_by": limited and limited.limit,
        "share": limited and limited.share,
    }


def _capacity_object(capacity: Capacity, snapshot: Snapshot, now: float) -> JsonObject:
    headroom, likely = snapshot.headroom(now), snapshot.saturation_probability(now)
    soon = snapshot.saturation_within(now)
    return {
        "value": capacity.value,
        "lower": capacity.lower,
        "upper": capacity.upper,
        "headroom": headroom and headroom.ratio,
        "overloaded": headroom and headroom.overloaded,
        "overload_loss": headroom and headroom.overload_loss,
        "saturation_probability": {f"{growth:g}": p for growth, p in likely} or None,
        "saturation_soon_probability": {duration_text(seconds): p for seconds, p in soon} or None,
        "concurrency": capacity.concurrency,
        "concurrency_upper": capacity.concurrency_upper,
        "limit": capacity.limit,
        "limits": capacity.shares,
        "trust": capacity.trust,
        "reasons": _reason_objects(capacity.reasons),
        "throughput_seen": capacity.x_seen,
        "settling_throughput": capacity.settling_throughput,
        "too_many_outliers": bool(capacity.outliers and capacity.outliers.too_many),
    }


def _forecast_object(state: ForecastState | None) -> JsonObject | None:
    if state is None:
        return None
    found = state.saturation
    reason = found.reason
    return {
        "at": state.at,
        "time_to_saturation": {
            "value": found.seconds,
            "lower": found.lower,
            "upper": found.upper,
        },
        "probability_within": {f"{days}d": p for days, p in found.probability},
        "growth_per_day": state.growth_per_day,
        "days": state.days,
        "reasons": _reason_objects([reason] if reason else []),
    }


def _sla_object(state: SlaState | None) -> JsonObject | None:
    if state is None:
        return None
    found = state.headroom
    return {
        "seconds": state.seconds,
        "throughput": estimate_object(found.throughput),
        "concurrency": estimate_object(found.concurrency),
        "headroom": estimate_object(found.ratio),
        "capacity_first": found.capacity_first,
        "residence_time_at_capacity": estimate_object(state.at_capacity),
        "trust": state.trust,
        "reasons": _reason_objects([found.reason] if found.reason else []),
    }


def _class_slas_object(state: ClassSlasState | None) -> JsonObject | None:
    if state is None:
        return None
    first = state.first
    return {
        "first": first and {"digest": first.digest, "quantile": first.quantile},
        "trust": state.trust,
        "classes": [_class_sla_object(one) for one in state.classes],
    }


def _class_sla_object(state: ClassSlaState) -> JsonObject:
    found = state.headroom
    return {
        "digest": state.digest,
        "quantile": state.quantile,
        "seconds": state.seconds,
        "response_time": estimate_object(state.present),
        "calls": state.calls,
        "load_ratio": estimate_object(found.load_ratio),
        "first": found.first,
        "reasons": _reason_objects([found.reason] if found.reason else []),
    }


def _business_object(state: BusinessState) -> JsonObject:
    found = state.unit_headroom
    return {
        "name": state.name,
        "unit": state.unit,
        "at": state.at,
        "value": state.value,
        "headroom": estimate_object(found.amount),
        "per_query_rate": estimate_object(found.per_query_rate),
        "trust": found.trust,
        "reasons": _reason_objects([found.reason] if found.reason else []),
    }


def estimate_object(known: PredictedValue | None) -> JsonObject | None:
    """Return a value with its bounds; None if it is not known."""
    if known is None:
        return None
    return {"value": known.value, "lower": known.lower, "upper": known.upper}


def _resource_limit_object(resource_limit: ResourceLimit) -> JsonObject:
    return {
        "resource": resource_limit.resource,
        "value": resource_limit.x_max,
        **_bounds(resource_limit.x_max_interval),
        "service_demand": resource_limit.demand,
        "demand_grows": resource_limit.growth,
        "utilisation_seen": resource_limit.utilisation_max,
        "trust": resource_limit.trust,
        "reasons": _reason_objects(resource_limit.reasons),
    }


def _law_object(law: UslFit) -> JsonObject:
    return {
        "sigma": law.law.sigma,
        "kappa": law.law.kappa,
        "lambda": law.law.lam,
        "max_throughput": {"value": law.x_max, **_bounds(law.x_max_interval)},
        "max_concurrency": {"value": law.n_max, **_bounds(law.n_max_interval)},
        "r_squared": law.r_squared,
        "trust": law.trust,
        "reasons": _reason_objects(law.reasons),
    }


def _workload_object(snapshot: Snapshot, capacity: Capacity | None) -> JsonObject:
    """Return detected workloads: a change in the window, the latest of all, two that alternate."""
    regimes, points = capacity and capacity.regimes, snapshot.assessed.intervals
    change, clusters = (regimes.change, regimes.clusters) if regimes else (None, None)
    at = points.at[change.index] if change and points else None
    return {
        "change": change and {"at": at, "quantity": change.quantity, "ratio": change.ratio},
        "changed_at": snapshot.assessed.outlier_counts.mix_changed_at,
        "two": clusters
        and {"quantity": clusters.quantity, "ratio": clusters.ratio, "left_out": clusters.share},
    }


def _outlier_objects(snapshot: Snapshot) -> list[JsonObject]:
    points = snapshot.assessed.intervals
    return [
        {"at": o.at, "reason": o.reason, "text": o.reason.sentence, "ratio": o.ratio}
        for o in (points.outliers if points else ())
    ]


def _point_objects(snapshot: Snapshot) -> list[JsonObject]:
    points = snapshot.assessed.intervals
    if points is None:
        return []
    columns = (
        points.at,
        points.throughput,
        points.concurrency,
        points.weights,
        points.dispositions,
    )
    names = ("at", "throughput", "concurrency", "weight", "fate")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _bounds(interval: CredibleInterval | None) -> JsonObject:
    low, high = interval or (None, None)
    return {"lower": low, "upper": high}


def _reason_objects(reasons: Iterable[Any]) -> list[JsonObject]:
    return [{"reason": reason.value, "text": reason.sentence} for reason in reasons]


def without_non_finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None, in nested values too."""
    if isinstance(value, dict):
        return {key: without_non_finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_non_finite(part) for part in value]
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return value
