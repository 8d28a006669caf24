"""The status of the history file as Prometheus metrics; they have no label for a target."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.export.metric_family_builders import PREFIX
from agent.history.write_health import StoreState

GAUGES: tuple[tuple[str, str, Callable[[StoreState], float | None]], ...] = (
    (
        "history_write_success",
        "1 if the last attempt to use the history succeeded, 0 if it failed; absent where "
        "no history is kept.",
        lambda state: state.success,
    ),
    (
        "history_size_bytes",
        "Size of the history's file and its log in bytes; absent until it could be opened.",
        lambda state: state.size,
    ),
    (
        "history_last_write_timestamp_seconds",
        "Unix time at which the history was last written; absent before the first time.",
        lambda state: state.last_write,
    ),
    (
        "history_write_duration_seconds",
        "Seconds that the latest write to the history took; absent before the first.",
        lambda state: state.write_seconds,
    ),
)
GAUGES_BY_KIND: tuple[tuple[str, str, Callable[[StoreState], Mapping[str, float]]], ...] = (
    (
        "history_rows",
        "Rows in the history, by kind; absent until it could be opened.",
        lambda state: state.rows,
    ),
    (
        "history_oldest_timestamp_seconds",
        "Unix time of the oldest row of this kind in the history; absent where there is none.",
        lambda state: state.oldest,
    ),
)
COUNTERS: tuple[tuple[str, str, Callable[[StoreState], float]], ...] = (
    (
        "history_dropped",
        "Batches of rows (one interval of one target each) that were lost because the history's "
        "write buffer was full.",
        lambda state: state.dropped,
    ),
    (
        "history_corrupt_files",
        "Corrupt history files that were renamed and replaced by a new one.",
        lambda state: state.corrupt_files,
    ),
)
"""Name, help text and value, or values by the label `kind`; a gauge that is None is left out."""


def history_families(state: StoreState) -> Iterator[Metric]:
    """Yield the metrics of the history's status; called only if a history is kept."""
    for name, text, value in GAUGES:
        if (known := value(state)) is not None:
            yield GaugeMetricFamily(PREFIX + name, text, value=float(known))
    for name, text, values in GAUGES_BY_KIND:
        family = GaugeMetricFamily(PREFIX + name, text, labels=("kind",))
        for kind, number in sorted(values(state).items()):
            family.add_metric((kind,), number)
        yield family
    failures = CounterMetricFamily(
        PREFIX + "history_write_failures",
        "Failed attempts to use the history, by kind of failure; a kind that never happened is "
        "absent.",
        labels=("kind",),
    )
    for failure, count in sorted(state.failures.items()):
        failures.add_metric((failure.value,), count)
    yield failures
    for name, text, total in COUNTERS:
        yield CounterMetricFamily(PREFIX + name, text, value=total(state))
