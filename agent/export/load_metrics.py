"""The load over the latest interval as Prometheus metrics: throughput and concurrency."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import gauge


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
