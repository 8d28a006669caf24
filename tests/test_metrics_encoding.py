"""The metrics as text, family by family."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agent.export.metrics_encoding import encode_by_family

FAMILIES: tuple[Metric, ...] = (
    InfoMetricFamily("build", "Version.", {"version": "1"}),
    GaugeMetricFamily("load", 'A "help" text\nof two lines', value=0.5),
    CounterMetricFamily("queries", "Queries.", value=3.0),
)


class Some(Collector):
    """Families in the order of the argument."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> tuple[Metric, ...]:
        """All of them."""
        return self._families


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
@pytest.mark.parametrize("count", range(len(FAMILIES) + 1))
def test_the_text_is_that_of_all_families_at_once(accept: str, count: int) -> None:
    """In either format, with the one end of OpenMetrics; also without any family."""
    registry = CollectorRegistry()
    registry.register(Some(*FAMILIES[:count]))
    encode, _ = choose_encoder(accept)
    assert encode_by_family(registry, encode) == encode(registry)
