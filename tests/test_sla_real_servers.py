"""The SLA on real servers: predicted from recorded loads below half of the peak, met above it.

The recordings are those of `test_real_servers`: MySQL 9.7 and MariaDB 10.11. The mean residence
time that was measured at a higher load later is taken for the SLA, so that the load that reaches it
is known.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pytest
from test_real_servers import RECORDED, ZOO

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.support.clock_pair import ClockPair
from agent.what_if.current_state import current_state_of
from agent.what_if.target_sla import sla_of
from agent.window.concurrency import ConcurrencySource, concurrency
from agent.window.intervals import Interval, Window
from agent.window.resource_utilisation import CPU, PROCESSOR_COUNTS, SERVER_CPU
from models.what_if.predicted_value import PredictedValue
from models.what_if.uncertainty_draws import draws_of
from testbed.recorded.peak_predictions import clients_peak, levels_of, saved

HALF = 0.5
"""The share of the peak below which the agent saw the server."""
HIGHER, ABOUT = (0.6, 0.7, 0.8, 0.9), 0.05
"""Shares of the peak, and how far off intervals may be that are taken together."""
BEYOND = 1.02
"""A higher load is one above the highest that was seen, by this factor."""
FILES = [*sorted(RECORDED.glob("*.json.gz")), *ZOO]
CPUS = {PROCESSOR_COUNTS[CPU]: 2.0, PROCESSOR_COUNTS[SERVER_CPU]: 1.0}
"""How many processors the host and the server had in the recordings older than these counts."""
UNIX = 1.7e9
Met = TypeVar("Met")


class MetLoad(NamedTuple):
    """A higher load that was measured later, and the one predicted to have its residence time."""

    recording: str
    throughput: float
    predicted: PredictedValue | None
    is_trusted: bool

    @property
    def is_held(self) -> bool:
        """Whether the 90 % interval holds the measured load."""
        found = self.predicted
        assert found is not None
        upper = np.inf if found.upper is None else found.upper
        return found.lower <= self.throughput <= upper


def known(file: Path) -> tuple[Snapshot, list[Interval], float]:
    """What the agent knows from below half of the peak, the intervals after, and the peak."""
    seen = saved(file)
    part = next(part for part in levels_of(seen) if part["cap"] == HALF)
    rows = [Interval(**row) for row in seen["intervals"]]
    rows = [row._replace(resources={**CPUS, **row.resources}) for row in rows]
    count = part["intervals"]
    now = ClockPair(rows[count - 1].end, UNIX)
    settings = FitSettings(interval=rows[count - 1].seconds, window=3600.0)
    window = Window(rows[:count])
    snapshot = assess("db", window, Health(up=True), AssessmentState(), settings, now)
    return snapshot, rows[count:], clients_peak(seen, part)[0]


def measured(file: Path) -> Iterator[tuple[float, float]]:
    """Mean X and R of the later intervals with about each share of the peak."""
    snapshot, rows, peak = known(file)
    assert snapshot.assessed.intervals is not None
    highest = snapshot.assessed.intervals.throughput.max()
    later = Window(rows)
    x, n = later["throughput"], concurrency(later, ConcurrencySource.STATEMENT_TIME)
    for share in HIGHER:
        about = (np.abs(x / peak - share) < ABOUT) & np.isfinite(n)
        if np.count_nonzero(about) > 1 and np.mean(x[about]) > BEYOND * highest:
            yield float(np.mean(x[about])), float(np.sum(n[about]) / np.sum(x[about]))


def predicted(file: Path) -> list[MetLoad]:
    """Predict each higher load that was measured from the mean residence time at it."""
    snapshot = known(file)[0]
    states = [(x, sla_of(snapshot, r, UNIX)) for x, r in measured(file)]
    name = file.name.removesuffix(".json.gz")
    return [
        MetLoad(name, x, state.headroom.throughput, state.trust == "trusted") for x, state in states
    ]


def of_all_recordings(predict: Callable[[Path], list[Met]]) -> list[Met]:
    """What each recording's function returns, in two processes."""
    with ProcessPoolExecutor(2) as pool:
        return [one for found in pool.map(predict, FILES) for one in found]


@cache
def loads() -> list[MetLoad]:
    """Those of all recordings."""
    return of_all_recordings(predicted)


def test_the_intervals_hold_nine_of_ten_loads_that_had_this_mean() -> None:
    """Of the higher loads that were measured; and none is trusted so far from it."""
    found = [load for load in loads() if load.predicted is not None]
    for load in found:
        if not load.is_held:
            print(f"{load.recording}: {load.throughput:.0f}/s had the mean, {load.predicted}")
    held = float(np.mean([load.is_held for load in found]))
    print(f"{held:.1%} of {len(found)} hold, of {len(loads())} loads")
    assert held >= 0.9
    assert not any(load.is_trusted for load in found)


def test_the_load_that_has_a_mean_is_mostly_predicted() -> None:
    """For nine of ten higher loads there is a number, from below half of the peak."""
    found = [load.predicted is not None for load in loads()]
    assert len(found) > 150
    assert np.mean(found) > 0.9


def test_the_median_prediction_is_off_by_less_than_a_fifth() -> None:
    """Over all recordings and loads; the median of the errors' sizes, and its sign."""
    errors = np.array(
        [
            load.predicted.value / load.throughput - 1
            for load in loads()
            if load.predicted is not None
        ]
    )
    sizes = np.abs(errors)
    print(f"{np.median(sizes):.1%}, nine of ten below {np.quantile(sizes, 0.9):.0%}")
    print(f"{np.median(errors):+.1%} signed, of {len(errors)}")
    assert np.median(sizes) < 0.2
    assert abs(np.median(errors)) < 0.1


@pytest.mark.parametrize(
    "file", FILES[::4], ids=lambda file: str(file.name).removesuffix(".json.gz")
)
def test_sla_capacity_and_saturation_never_contradict_each_other(file: Path) -> None:
    """They come from one set of draws, also where the capacity is not trusted."""
    snapshot = known(file)[0]
    capacity, draws = snapshot.capacity(UNIX), draws_of(current_state_of(snapshot, UNIX))
    assert capacity is not None
    assert capacity.upper is not None
    assert snapshot.load is not None
    for growth, probability in snapshot.saturation_probability(UNIX):
        drawn = np.mean(draws.capacity <= growth * snapshot.load.throughput)
        assert drawn == pytest.approx(probability, abs=0.001)
    for _, r in measured(file):
        state = sla_of(snapshot, r, UNIX)
        found, at = state.headroom, state.at_capacity
        if found.throughput is None:
            continue
        assert found.throughput.upper is not None
        assert found.throughput.upper <= 1.01 * capacity.upper
        if at is not None and found.capacity_first is not None and found.capacity_first < 0.45:
            assert at.value >= r
