"""The status of targets and collectors as Prometheus metrics; it is never stale."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import ServerIdentity, Snapshot
from agent.config.target_labels import INFO_LABELS
from agent.export.metric_family_builders import counter, gauge


def health_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the status of each target and its collectors, which is never stale."""
    del now
    yield gauge(
        "up",
        "1 if the server's status was read at the last attempt, 0 if not; absent before the "
        "first attempt.",
        (((s.target,), _as_number(s.health.up)) for s in snapshots),
    )
    yield _target_info(snapshots)
    yield from _clock_offset_families(snapshots)
    yield counter(
        "queries",
        "Statements that the server has counted since its start (Questions), including the "
        "agent's own; absent while the server is down.",
        (
            ((s.target,), s.health.queries)
            for s in snapshots
            if s.health.up and s.health.queries is not None
        ),
    )
    yield gauge(
        "feature_enabled",
        "1 if the server or its host grants and enables what the feature reads, 0 if not; "
        "absent before the first session.",
        (((s.target, f.name), float(f.enabled)) for s in snapshots for f in s.health.features),
        "feature",
    )
    yield counter(
        "server_restarts",
        "Restarts of the server that the agent has detected; absent before the first attempt to "
        "reach it.",
        (((s.target,), float(s.health.restarts)) for s in snapshots if s.health.up is not None),
    )
    yield from _collector_families(snapshots)


def _target_info(snapshots: list[Snapshot]) -> Metric:
    """Return the info metric; labels that only other targets have are empty."""
    identities = [(s.target, i) for s in snapshots if (i := s.health.identity) is not None]
    names = sorted({name for _, identity in identities for name, _ in identity.labels})

    def values(target: str, i: ServerIdentity) -> tuple[str, ...]:
        given = dict(i.labels)
        known = (target, i.host, i.port, i.version, i.server_identity)
        return (*known, *(given.get(name, "") for name in names))

    return gauge(
        "target_info",
        "Host, port, version and server_identity (MySQL's UUID, else hostname:port:datadir) of the "
        "target, and its labels from the configuration, to join its series with those of other "
        "exporters; always 1. Absent before the first session.",
        ((values(*each), 1.0) for each in identities),
        *INFO_LABELS,
        *names,
    )


def _clock_offset_families(snapshots: list[Snapshot]) -> Iterator[Metric]:
    clocks = [
        ((s.target,), clock) for s in snapshots if (clock := s.current_clock_offset()) is not None
    ]
    yield gauge(
        "clock_offset_seconds",
        "Server's clock minus the agent's in seconds, above 0 where the server's is ahead; "
        "absent while it is not known.",
        ((labels, clock.seconds) for labels, clock in clocks),
    )
    yield gauge(
        "clock_offset_uncertainty_seconds",
        "Largest error of the server's clock offset in seconds, either way: half of the round "
        "trip plus the drift since then. Absent while the offset is not known.",
        ((labels, clock.uncertainty) for labels, clock in clocks),
    )


def _collector_families(snapshots: list[Snapshot]) -> Iterator[Metric]:
    health = [(s.target, c) for s in snapshots for c in s.health.collectors]
    yield gauge(
        "collector_success",
        "1 if the collector's last reading succeeded, 0 if it failed; absent while the "
        "collector is off or has not run.",
        (((target, c.name), _as_number(c.success)) for target, c in health),
        "collector",
    )
    yield gauge(
        "collector_duration_seconds",
        "Seconds that the collector's last reading took; absent while the collector is off or "
        "has not run.",
        (((target, c.name), c.duration) for target, c in health),
        "collector",
    )
    yield counter(
        "collector_failures",
        "Failed readings of the collector, by kind of failure; a kind that never happened is "
        "absent.",
        (
            ((target, c.name, kind.value), float(count))
            for target, c in health
            for kind, count in sorted(c.failures.items())
        ),
        "collector",
        "kind",
    )
    yield counter(
        "collector_skipped",
        "Readings of the collector that were skipped because the previous one took too long; "
        "absent while the collector is off or has not run.",
        (((target, c.name), float(c.skipped)) for target, c in health if c.success is not None),
        "collector",
    )
    yield gauge(
        "last_sample_timestamp_seconds",
        "Unix time at which the server's status was last read; absent before the first time.",
        (((target,), c.last_at) for target, c in health if c.name == "status"),
    )


def _as_number(state: bool | None) -> float | None:
    return None if state is None else float(state)
