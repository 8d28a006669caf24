"""The models of all resources that are divided over the classes."""

from collections.abc import Mapping, Sequence

import numpy as np

from agent.query_classes.class_intervals import ClassInterval, host_use, whole_use
from agent.query_classes.divided_resources import RESOURCES
from agent.query_classes.saturated_intervals import in_worst_period, saturated_periods
from agent.query_classes.state import ResourceState
from models.attribution.class_intervals import ClassIntervals
from models.attribution.reasons import HostUse, Signs, find_reasons
from models.attribution.sliding_model import ClassShares, SlidingModel
from models.wlr import Line

Shares = Mapping[str, ClassShares]
"""By resource."""


class ClassModels:
    """A sliding model of each resource, over so many blocks."""

    def __init__(self, blocks: int) -> None:
        self._models = {resource.name: SlidingModel(resource, blocks) for resource in RESOURCES}
        self._worst = HostUse()

    def divide(self, table: ClassIntervals, intervals: Sequence[ClassInterval]) -> Shares:
        """Divide each resource over the classes of a block, by the intervals in which it is known.

        The table is of those intervals in which the classes are.
        """
        shares: dict[str, ClassShares] = {}
        host = host_use(intervals)
        self._worst = in_worst_period(host, saturated_periods(intervals))
        for name, model in self._models.items():
            used = whole_use(name, table, intervals)
            known = np.flatnonzero(np.isfinite(used))
            if len(known):
                shares[name] = model.take(table.at(known), used[known], host)
        return shares

    def recent(self, key: str) -> dict[str, float]:
        """The recent use of each resource by a class, older blocks counting less."""
        return {name: model.use().get(key, 0.0) for name, model in self._models.items()}

    def recent_cpu(self) -> dict[str, float]:
        """CPU by class, the same way."""
        return self._models["cpu"].use()

    def cpu_line(self, key: str) -> Line | None:
        """The line of a class's CPU on its work time."""
        names, lines = self._models["cpu"].lines()
        return lines.line(names.index(key)) if key in names else None

    def state(self, name: str, shares: Shares, left_over: float | None) -> ResourceState:
        """Describe how a resource was divided; `left_over` is None where its whole is not known."""
        model = self._models[name]
        signs = Signs(
            intervals=model.intervals,
            held_out_mape=model.held_out.mape,
            level=model.level if model.resource.cpu else None,
            host=self._worst,
            time_is_work=False,
        )
        return ResourceState(
            name=name,
            source=shares[name].source if name in shares else None,
            unattributed=left_over,
            unattributed_share=None if left_over is None else model.unattributed_share,
            held_out=model.held_out,
            disagreement=model.disagreement,
            reasons=find_reasons(signs),
            total=model.total,
            beside_classes=model.beside_classes,
        )
