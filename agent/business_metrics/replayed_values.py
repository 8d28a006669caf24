"""Business metrics of a recorded server: what the agent would have reported at each time."""

from collections.abc import Iterator, Mapping, Sequence

from agent.assessment.snapshot import BusinessState, Snapshot
from agent.business_metrics.unit_headroom import business_state, headroom_in_unit
from agent.business_metrics.value_series import ValueSeries
from agent.config.business_metrics import BusinessMetric
from agent.history.row_kinds import Row
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window


class RecordedValues:
    """The values of a history, added as time advances; as many are kept as by the agent."""

    def __init__(self, metrics: Sequence[BusinessMetric], rows: Iterator[Row]) -> None:
        self._metrics = metrics
        self._series = {metric.name: ValueSeries() for metric in metrics}
        self._rows = rows
        self._next = next(rows, None) if metrics else None

    def states(self, snapshot: Snapshot, window: Window) -> tuple[BusinessState, ...]:
        """Return the state of each metric at the snapshot's time, which must not decrease.

        `window` is the one of that time.
        """
        now = ClockPair(snapshot.at, snapshot.at)
        self._play(snapshot.at)
        return tuple(
            business_state(metric, series, headroom_in_unit(series, window, snapshot, now), now)
            for metric in self._metrics
            for series in (self._series[metric.name],)
        )

    def _play(self, until: float) -> None:
        while self._next is not None and self._next.at <= 1000 * until:
            [values] = self._next.cells
            for name, value in values.items() if isinstance(values, Mapping) else ():
                if name in self._series:
                    self._series[name].append(self._next.at / 1000, value)
            self._next = next(self._rows, None)
