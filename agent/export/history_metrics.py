"""The status of the history file as Prometheus metrics; they are the agent's own."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.export.families import PREFIX
from agent.history.status import StoreState


def history_families(state: StoreState) -> Iterator[Metric]:
    """What is known of it; there is none of this where no history is kept."""
    single = (
        (
            "history_write_success",
            "1 if the last access to the history succeeded.",
            state.success,
        ),
        ("history_size_bytes", "Bytes of the history's file and its log.", state.size),
        (
            "history_last_write_timestamp_seconds",
            "When the history was last written.",
            state.last_write,
        ),
        (
            "history_write_duration_seconds",
            "Duration of the latest write to the history.",
            state.write_seconds,
        ),
    )
    for name, text, value in single:
        if value is not None:
            yield GaugeMetricFamily(PREFIX + name, text, value=float(value))
    rows = GaugeMetricFamily(PREFIX + "history_rows", "Rows in the history.", labels=("kind",))
    oldest = GaugeMetricFamily(
        PREFIX + "history_oldest_timestamp_seconds",
        "The time of the oldest row in the history.",
        labels=("kind",),
    )
    failures = CounterMetricFamily(
        PREFIX + "history_write_failures", "Failed accesses to the history.", labels=("kind",)
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
        "Batches (an interval of one target) dropped because the queue to the history was full.",
        value=state.dropped,
    )
    yield CounterMetricFamily(
        PREFIX + "history_corrupt_files",
        "Corrupt history files that were moved aside.",
        value=state.corrupt_files,
    )
