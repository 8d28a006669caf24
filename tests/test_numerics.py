"""Medians and quantiles are numpy's, and an assessment loads no more of numpy than it needs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.numerics import median, quantile, quantiles, weighted_quantiles
from models.robust_regression import medians

TESTS = Path(__file__).parent
SHARES = (0.0, 0.05, 0.1, 0.5, 0.9, 0.95, 1.0)
ASSESS = """
from law_windows import WAVES, intervals, known, with_resources
rows = with_resources(intervals(WAVES), cpu=0.0002, disk=0.0001)
rows = [row._replace(resources={**row.resources, "connections:open": 50.0}) for row in rows]
assert known(rows).assessed.capacity.value is not None
"""
DIVIDE = """
from simulated_classes import simulate
from agent.query_classes.resource_meter import RESOURCES
from models.attribution.result import HostUse
from models.attribution.sliding_model import SlidingModel
made = simulate(intervals=40)
model = SlidingModel(RESOURCES[0], 60)
for start in range(0, 40, 10):
    part = slice(start, start + 10)
    model.add_block(made.intervals.at(part), made.y[part], HostUse(0.3, 0.0, 0.8))
assert model.intervals
"""
CLASSES = """
import simulated_classes
from class_samples import samples
from agent.config.query_class_settings import ClassSettings
from agent.query_classes.assessment import ClassMonitor
simulated_classes.EXAMINED = simulated_classes.SENT = 1.0  # of every class
many = {f"class {k}": 1e-3 for k in range(60)}
server = simulated_classes.simulate(intervals=40, costs=many, rates=[5.0] * len(many))
classes = ClassMonitor(ClassSettings(interval=10.0, window=60.0, top=5))
for sample in samples(server, texts=False):
    classes.append(sample)
    classes.advance(sample.at, sample.at)
assert classes.state is not None
"""
FORECAST = """
import numpy as np
from models.forecast.next_hour import DAY_STEPS, RISE_STEPS, possible_rises
from models.forecast.time_to_saturation import forecast_load
hours = 500 - 300 * np.cos(2 * np.pi * np.arange(42 * 24) / 24)
assert forecast_load(hours).trend is not None
steps = 500 - 300 * np.cos(2 * np.pi * np.arange(8 * DAY_STEPS + 100) / DAY_STEPS)
assert possible_rises(steps, 1.3 * steps[-1], steps[-1 - RISE_STEPS])
"""
SLA = """
from test_what_if import TODAY
from models.what_if.sla_headroom import sla_headroom
assert sla_headroom(TODAY, 0.01).throughput is not None
"""
LOADED = """
import sys
sys.path.insert(0, {tests!r})
{program}
print(sorted(name for name in sys.modules if name in {unwanted}))
"""


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100, 101])
def test_medians_and_quantiles_equal_numpys(count: int) -> None:
    """To the last digit, in any order, equal values among them."""
    values = np.random.default_rng(count).normal(size=count).round(1)
    assert median(values) == np.median(values)
    assert quantiles(values, SHARES) == np.quantile(values, SHARES).tolist()
    assert quantile(values, 0.3) == np.quantile(values, 0.3)


def test_a_weighted_quantile_is_between_the_middles_of_two_weights() -> None:
    """In any order; beyond the first and the last middle it is the value there."""
    values, weights = np.array([30.0, 10.0, 20.0]), np.array([1.0, 8.0, 1.0])
    assert weighted_quantiles(values, weights, (0.1, 0.4, 0.85, 0.9, 0.99)) == pytest.approx(
        [10.0, 10.0, 20.0, 25.0, 30.0]
    )


def test_nan_gives_nan() -> None:
    """An unknown value is not ignored."""
    values = np.array([3.0, np.nan, 1.0])
    assert np.isnan([median(values), quantile(values, 0.1), *quantiles(values, SHARES)]).all()


def test_medians_of_columns_ignore_nan() -> None:
    """With and without gaps; of no value NaN."""
    values = np.random.default_rng(1).normal(size=(9, 4))
    assert medians(values).tolist() == np.median(values, axis=0).tolist()
    assert medians(values, axis=1).tolist() == np.median(values, axis=1).tolist()
    values[2:5, 1], values[:, 3] = np.nan, np.nan
    found = medians(values)
    assert found[:3].tolist() == np.nanmedian(values[:, :3], axis=0).tolist()
    assert np.isnan(found[3])


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        (ASSESS, ("numpy.ma", "numpy.random", "scipy")),
        (DIVIDE, ("numpy.ma", "scipy")),  # made up with numpy's random numbers
        (CLASSES, ("numpy.ma", "scipy")),
        (FORECAST, ("numpy.ma", "numpy.random", "scipy")),
        (SLA, ("numpy.random", "scipy")),
    ],
)
def test_an_assessment_imports_no_more_of_numpy(program: str, unwanted: tuple[str, ...]) -> None:
    """Numpy.ma takes 2 MiB (np.median, np.quantile and np.isin load it), numpy.random takes 7."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(tests=str(TESTS), program=program, unwanted=unwanted)],
        capture_output=True,
        text=True,
        check=True,
        cwd=TESTS.parent,
    )
    assert done.stdout.strip() == "[]"
