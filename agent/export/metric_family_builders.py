"""Builders of metric families, a row per sample; None is left out, as absent is not zero."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from models.trust import Trust

PREFIX = "mysql_headroom_"
LOWER = "lower bound of the 90 % interval"
UPPER = "upper bound of the 90 % interval"
TRUST = "1 for the state that holds (trusted, indicative or not_identifiable), 0 for the other two"
"""Parts of help texts; each text says the unit and what 0, 1 or an absent series means."""

Rows = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values, the target or group first, and the sample; a sample that is None is left out."""


def gauge(name: str, text: str, rows: Rows, *labels: str) -> Metric:
    """Return a gauge; `labels` are the names of those other than the target."""
    return _with_rows(GaugeMetricFamily(PREFIX + name, text, labels=("target", *labels)), rows)


def counter(name: str, text: str, rows: Rows, *labels: str) -> Metric:
    """Return a counter; `name` is without the suffix `_total`."""
    return _with_rows(CounterMetricFamily(PREFIX + name, text, labels=("target", *labels)), rows)


def group_gauge(name: str, text: str, rows: Rows, *labels: str) -> Metric:
    """Return a gauge of groups; `labels` are the names of those other than the group."""
    return _with_rows(GaugeMetricFamily(PREFIX + name, text, labels=("group", *labels)), rows)


def group_counter(name: str, text: str, rows: Rows, *labels: str) -> Metric:
    """Return a counter of groups; `name` is without the suffix `_total`."""
    return _with_rows(CounterMetricFamily(PREFIX + name, text, labels=("group", *labels)), rows)


def trust_rows(labels: tuple[str, ...], trust: Trust) -> Rows:
    """Return a row for each state of trust: 1 for the current one, 0 for the others."""
    return [((*labels, state.value), float(state is trust)) for state in Trust]


def _with_rows(family: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for labels, value in rows:
        if value is not None:
            family.add_metric(labels, value)
    return family
