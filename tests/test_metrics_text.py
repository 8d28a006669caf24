"""The metrics as text: what the library makes of the same families."""

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agent.export.metrics_text import encode_metrics

NUMBERS = [0.0, -0.0, 1.0, -2.5, 1e-300, 123456789.0, -1e15, 1e22, 5e-324, 1 / 3]
NUMBERS += [float("inf"), float("-inf"), float("nan")]
ODD_TEXTS = ("", " ", 'a "word"', "back\\slash", "two\nlines", "\\n", "ä€😀", "{},=", "\t\r")
FORMATS = pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])


class Some(Collector):
    """Families in the order of the argument."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> tuple[Metric, ...]:
        """All of them."""
        return self._families


def families() -> list[Metric]:
    """Each type that the agent has, with labels, texts and numbers of all kinds."""
    gauge = GaugeMetricFamily("load", 'A "help" \\ of\ntwo lines', labels=("z", "a"))
    for number in NUMBERS:
        gauge.add_metric(("last", "first"), number)
    counter = CounterMetricFamily("queries", "Queries.", labels=("text",))
    for text in ODD_TEXTS:
        counter.add_metric((text,), 3.0)
    info = InfoMetricFamily("build", "Version.", {"version": "1"})
    plain = GaugeMetricFamily("up", "Whether it is.", value=1.0)
    with_unit = GaugeMetricFamily("age_seconds", "Age.", value=1.5, unit="seconds")
    return [gauge, counter, info, plain, with_unit]


def assert_equals_library(registry: CollectorRegistry, accept: str) -> None:
    """Both make the same bytes of it."""
    encode, _ = choose_encoder(accept)
    assert encode_metrics(registry, open_metrics=bool(accept)) == encode(registry)


@FORMATS
@pytest.mark.parametrize("count", range(len(families()) + 1))
def test_the_text_is_that_of_the_library(accept: str, count: int) -> None:
    """In either format, with the end of OpenMetrics; also without any family."""
    registry = CollectorRegistry()
    registry.register(Some(*families()[:count]))
    assert_equals_library(registry, accept)


@FORMATS
def test_the_librarys_own_collectors_are_encoded_as_well(accept: str) -> None:
    """The agent registers that of its process, whose numbers change between two readings."""
    registry = CollectorRegistry()
    registry.register(Some(*ProcessCollector(registry=None).collect()))
    assert_equals_library(registry, accept)
