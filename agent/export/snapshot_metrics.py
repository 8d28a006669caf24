"""Snapshots as Prometheus metrics. Absent is not zero: what is not known has no series."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from agent import __version__
from agent.assessment.snapshot import Snapshot
from agent.export.business_metrics import business_families
from agent.export.capacity_metrics import capacity_families
from agent.export.class_metrics import class_families
from agent.export.class_sla_metrics import class_sla_families
from agent.export.forecast_metrics import forecast_families
from agent.export.health_metrics import health_families
from agent.export.load_metrics import load_families
from agent.export.metric_family_builders import PREFIX
from agent.export.sla_metrics import sla_families
from agent.export.time_split_metrics import time_split_families
from agent.export.usl_metrics import usl_families

FAMILIES = (
    health_families,
    load_families,
    time_split_families,
    capacity_families,
    forecast_families,
    sla_families,
    class_sla_families,
    business_families,
    usl_families,
    class_families,
)
"""In the order of the page."""


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
