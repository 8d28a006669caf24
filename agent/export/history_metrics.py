"""The status of the history file as Prometheus metrics; they have no label for a target."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.export.metric_families import PREFIX
from agent.history.write_health import StoreState


def history_families(state: StoreState) -> Iterator[Metric]:
    """Yield the metrics of the history's status; called only if a history is kept."""
    single = (
        (
            "history_write_success",
            "1 if the last attempt to use the history succeeded, 0 if it failed; absent where "
            "no history is kept.",
            state.success,
        ),
        (
            "history_size_bytes",
            "Size of the history's file and its log in bytes; absent until it could be opened.",
            state.size,
        ),
        (
            "history_last_write_timestamp_seconds",
            "Unix time at which the history was last written; absent before the first time.",
            state.last_write,
        ),
        (
            "history_write_duration_seconds",
            "Seconds that the latest write to the history took; absent before the first.",
            state.write_seconds,
        ),
    )
    for name, text, value in single:
        if value is not None:
            yield GaugeMetricFamily(PREFIX + name, text, value=float(value))
    rows = GaugeMetricFamily(
        PREFIX + "history_rows",
        "Rows in the history, by kind; absent until it could be opened.",
        labels=("kind",),
    )
    oldest = GaugeMetricFamily(
        PREFIX + "history_oldest_timestamp_seconds",
        "Unix time of the oldest row of this kind in the history; absent where there is none.",
        labels=("kind",),
    )
    failures = CounterMetricFamily(
        PREFIX + "history_write_failures",
        "Failed attempts to use the history, by kind of failure; a kind that never happened is "
        "absent.",
        labels=("kind",),
    )
    for kind, count in sorted(state.rows.items()):
        rows.add_metric((kind,), count)
    for kind, at in sorted(state.oldest.items()):
        oldest.add_metric((kind,), at)
    for failure, count in sorted(state.failures.items()):
        failures.add_metric((failure.value,), count)
    yield from (rows, oldest, failures)
    yield CounterMetricFamily(
        PREFIX + "history_dropped",
        "Batches of rows (one interval of one target each) that were lost because the history's "
        "write buffer was full.",
        value=state.dropped,
    )
    yield CounterMetricFamily(
        PREFIX + "history_corrupt_files",
        "Corrupt history files that were renamed and replaced by a new one.",
        value=state.corrupt_files,
    )
