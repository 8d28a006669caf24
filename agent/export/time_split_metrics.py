"""Where statement time goes as Prometheus metrics: 16 series per target, one per query class."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import gauge
from agent.query_classes.class_time_splits import class_key
from models.time_split.limiting_resource import LimitedBy, LimitingResource


def time_split_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the time split of each target, and what limits it and its query classes."""
    yield from _target_splits(snapshots, now)
    yield gauge(
        "layer_concurrency",
        "Mean number of threads that spend their time in this layer, over the last five "
        "minutes: system is CPU, disk and network, distribution is replication (appliers and "
        "waits for replicas), application is the rest. Absent where CPU, disk or replication is "
        "not known.",
        (((s.target, layer.value), n) for s in snapshots for layer, n in s.layers(now).items()),
        "layer",
    )
    yield gauge(
        "query_limited_by_ratio",
        "Share of the query class's time that is spent on the limit where it spends most, 0 to "
        "1; the label limit names it. Absent where that is not known.",
        _class_limits(snapshots, now),
        "schema",
        "digest",
        "limit",
    )


def _target_splits(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the parts of each target's statement time, and the one on which most is spent."""
    known = [(s.target, time) for s in snapshots if (time := s.current_time_use(now)) is not None]
    yield gauge(
        "statement_time_ratio",
        "Share of the statement time of the last five minutes that was spent in this part, 0 to "
        "1; absent where it is not known, and then counted in the part not_allocated.",
        (
            ((t, part.value), share)
            for t, u in known
            for part, share in u.split.known_shares.items()
        ),
        "part",
    )
    yield gauge(
        "statement_time_excess_ratio",
        "Excess of the measured parts over the statement time, as a share of it, before they "
        "were scaled down: 0 is none, above 0.1 (a tenth) the split is doubtful. Absent while "
        "no statement runs.",
        (((target,), use.split.excess) for target, use in known),
    )
    yield gauge(
        "limited_by",
        "1 for the limit on which most of the statement time is spent, 0 for the others; absent "
        "while that is not known.",
        (
            ((target, limit.value), float(limit is use.limited_by.limit))
            for target, use in known
            if use.limited_by is not None
            for limit in LimitingResource
        ),
        "limit",
    )


def _class_limits(
    snapshots: list[Snapshot], now: float
) -> Iterator[tuple[tuple[str, ...], float | None]]:
    for snapshot in snapshots:
        splits, state = snapshot.class_splits(now), snapshot.classes
        for one in state.classes if state else ():
            split = splits.get(class_key(one))
            limited = LimitedBy.of(split) if split else None
            if limited is not None:
                labels = (snapshot.target, one.name.schema, one.name.digest, limited.limit.value)
                yield labels, limited.share
