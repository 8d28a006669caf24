"""Snapshots as Prometheus metrics. Absent is not zero: what is not known has no series."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from agent import __version__
from agent.assessment.snapshot import ServerIdentity, Snapshot
from agent.config.target_labels import INFO_LABELS
from agent.export.business_metrics import business_families
from agent.export.capacity_metrics import capacity_families
from agent.export.class_metrics import class_families
from agent.export.class_sla_metrics import class_sla_families
from agent.export.forecast_metrics import forecast_families
from agent.export.metric_families import LOWER, PREFIX, TRUST, UPPER, counter, gauge, trust_rows
from agent.export.sla_metrics import sla_families
from agent.export.time_split_metrics import time_families
from models.trust import Trust
from models.usl.fit import UslFit

FIT_GAUGES: tuple[tuple[str, str, Callable[[UslFit], float | None]], ...] = (
    (
        "usl_sigma",
        "Contention (sigma) of the fitted Universal Scalability Law: the share of the work that "
        "cannot run in parallel, 0 is none. Absent without a recent fit.",
        lambda fit: fit.law.sigma,
    ),
    (
        "usl_kappa",
        "Coherency (kappa) of the fitted Universal Scalability Law: the cost of keeping each "
        "pair of statements consistent, 0 is none. Absent without a recent fit.",
        lambda fit: fit.law.kappa,
    ),
    (
        "usl_lambda_queries_per_second",
        "Throughput in queries per second at a concurrency of one, by the fitted Universal "
        "Scalability Law (lambda); absent without a recent fit.",
        lambda fit: fit.law.lam,
    ),
    (
        "usl_max_concurrency",
        "Statements running at once at the peak of the fitted Universal Scalability Law; absent "
        "without a recent fit, and where the law has no peak.",
        lambda fit: fit.n_max,
    ),
    (
        "usl_max_concurrency_lower",
        "Statements running at once at the peak of the fitted Universal Scalability Law, "
        f"{LOWER}; absent where that is not known.",
        lambda fit: fit.n_max_interval and fit.n_max_interval.low,
    ),
    (
        "usl_max_concurrency_upper",
        "Statements running at once at the peak of the fitted Universal Scalability Law, "
        f"{UPPER}; absent where that is not known.",
        lambda fit: fit.n_max_interval and fit.n_max_interval.high,
    ),
    (
        "usl_max_throughput_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law; "
        "absent without a recent fit.",
        lambda fit: fit.x_max,
    ),
    (
        "usl_max_throughput_lower_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law, "
        f"{LOWER}; absent where that is not known.",
        lambda fit: fit.x_max_interval and fit.x_max_interval.low,
    ),
    (
        "usl_max_throughput_upper_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law, "
        f"{UPPER}; absent where that is not known.",
        lambda fit: fit.x_max_interval and fit.x_max_interval.high,
    ),
    (
        "usl_r_squared",
        "Share of the throughput's variance that the fit of the Universal Scalability Law "
        "explains, at most 1; it is high even where the prediction is bad. Absent without a "
        "recent fit.",
        lambda fit: fit.r_squared,
    ),
    (
        "usl_points",
        "Points (intervals) given to the fit of the Universal Scalability Law; absent without a "
        "recent fit.",
        lambda fit: float(fit.points),
    ),
    (
        "usl_outliers",
        "Points (intervals) that the fit of the Universal Scalability Law left out as outliers; "
        "absent without a recent fit.",
        lambda fit: float(len(fit.outliers)),
    ),
)


class SnapshotCollector(Collector):
    """The targets' latest snapshots as metric families; both arguments are called at a scrape."""

    def __init__(
        self, snapshots: Callable[[], Iterable[Snapshot]], clock: Callable[[], float]
    ) -> None:
        self._snapshots = snapshots
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has a sample, in a fixed order."""
        snapshots = sorted(self._snapshots(), key=lambda snapshot: snapshot.target)
        now = self._clock()
        yield InfoMetricFamily(
            PREFIX + "build",
            "Version of the agent, in the label version; always 1.",
            {"version": __version__},
        )
        for families in FAMILIES:
            for family in families(snapshots, now):
                if family.samples:
                    yield family


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


def load_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the load over the latest interval."""
    loads = [(s.target, load) for s in snapshots if (load := s.current_load(now)) is not None]
    yield gauge(
        "throughput_queries_per_second",
        "Statements completed per second over the latest interval (15 s by default); absent "
        "while the server is down or no interval is recent.",
        (((target,), load.throughput) for target, load in loads),
    )
    yield gauge(
        "interval_end_timestamp_seconds",
        "Unix time of the end of the latest interval, over which throughput, concurrency and "
        "utilisations are averaged; absent while the server is down or no interval is recent.",
        (((target,), load.end) for target, load in loads),
    )
    yield gauge(
        "concurrency",
        "Statements running at once, averaged over the latest interval, by the source of the "
        "number: statement times (Little's law) or a count of running threads. The sources "
        "measure the same thing, so do not add them up; absent where the source cannot be read.",
        (((t, source.value), n) for t, load in loads for source, n in load.concurrency.items()),
        "source",
    )
    yield gauge(
        "concurrency_excluded_threads",
        "Threads counted by Threads_running that do not work for a client, by kind; they are "
        "subtracted from the concurrency. Absent where threads cannot be read.",
        (((target, kind), n) for target, load in loads for kind, n in load.excluded.items()),
        "kind",
    )


def fit_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the fitted law, its peak with bounds, and its trust."""
    fits = [(s.target, fit) for s in snapshots if (fit := s.current_law(now)) is not None]
    for name, text, value in FIT_GAUGES:
        yield gauge(name, text, [((target,), value(fit)) for target, fit in fits])
    judged_fits = [(s.target, *judged) for s in snapshots if (judged := _law_trust(s, now))]
    yield gauge(
        "usl_trust",
        f"Trust in the fit of the Universal Scalability Law: {TRUST}; absent while nothing is "
        "assessed.",
        (row for target, trust, _ in judged_fits for row in trust_rows((target,), trust)),
        "trust",
    )
    yield gauge(
        "usl_reason",
        "1 for each reason why the fit of the Universal Scalability Law is not trusted, or why "
        "there is none; absent without one.",
        (((target, reason), 1.0) for target, _, reasons in judged_fits for reason in reasons),
        "reason",
    )
    sources = [(s.target, s.assessed.source) for s in snapshots if s.current_law(now) is not None]
    yield gauge(
        "usl_concurrency_source_info",
        "Source of the concurrency that was fitted, in the label source: statement times or a "
        "count of running threads; always 1. Absent without a recent fit.",
        (((target, source.value), 1.0) for target, source in sources if source is not None),
        "source",
    )
    yield gauge(
        "last_assessment_timestamp_seconds",
        "Unix time of the end of the latest interval that was assessed; absent before the first.",
        (((s.target,), s.assessed.at) for s in snapshots),
    )


def _law_trust(snapshot: Snapshot, now: float) -> tuple[Trust, tuple[str, ...]] | None:
    """Return the law's trust and reasons; one that may not be fitted is not identifiable."""
    fit, refusal = snapshot.current_law(now), snapshot.law_refusal(now)
    if refusal is not None:
        return Trust.NOT_IDENTIFIABLE, (refusal.check.value,)
    if fit is None:
        return None
    return fit.trust, tuple(reason.value for reason in fit.reasons)


def _as_number(state: bool | None) -> float | None:
    return None if state is None else float(state)


FAMILIES = (
    health_families,
    load_families,
    time_families,
    capacity_families,
    forecast_families,
    sla_families,
    class_sla_families,
    business_families,
    fit_families,
    class_families,
)
