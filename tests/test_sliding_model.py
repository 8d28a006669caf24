"""When the live model of a resource learns again, and what it keeps."""

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from simulated_classes import pooled, simulate

from agent.query_classes.resource_meter import RESOURCES
from models.arrays import Array
from models.attribution.class_interval_table import OTHER, ClassIntervals
from models.attribution.division_methods import DividedResource, DividedUse
from models.attribution.resource_division import attribute
from models.attribution.result import HostUse
from models.attribution.sliding_model import REFIT_SHARE, SlidingModel

PER_BLOCK, BLOCKS = 10, 60
HOST = HostUse(busy=0.3, io_wait=0.0, running=0.8)


def learned_by_block(intervals: ClassIntervals, y: Array) -> list[int]:
    """After each block, of how many blocks the latest fit is."""
    model, learned = SlidingModel(RESOURCES[0], BLOCKS), []
    for start in range(0, len(intervals), PER_BLOCK):
        part = slice(start, start + PER_BLOCK)
        model.add_block(intervals.at(part), y[part], HOST)
        learned.append(model.intervals // PER_BLOCK)
    return learned


def test_the_fit_is_repeated_when_a_tenth_of_its_window_is_new() -> None:
    """At first with every block; later it covers at least nine tenths of the blocks."""
    simulated = simulate(intervals=PER_BLOCK * 40)
    learned = learned_by_block(simulated.intervals, simulated.y)
    assert learned[:10] == list(range(1, 11))
    assert len(set(learned)) < 25
    assert all(n > (1 - REFIT_SHARE) * k for k, n in enumerate(learned, start=1))


def test_a_new_large_class_is_fitted_at_once() -> None:
    """Its use does not stay unattributed until the next fit is due."""
    simulated = simulate(intervals=PER_BLOCK * 22)
    intervals, count = simulated.intervals, simulated.intervals.count
    assert count is not None
    began = 21 * PER_BLOCK
    there = np.ones(count.shape)
    there[:began, intervals.names.index("scan")] = 0.0
    late = replace(
        intervals,
        count=count * there,
        statement_time=intervals.statement_time * there,
        lock_time=None,
        sizes=tuple((name, table * there) for name, table in intervals.sizes),
    )
    learned = learned_by_block(late, (simulated.truth * there).sum(axis=1))
    assert learned[20] < 21
    assert learned[21] == 22


def test_a_new_class_of_few_and_heavy_calls_is_fitted_at_once() -> None:
    """By calls and rows it is a ten-thousandth of the work; by time, and by CPU, it is a third."""
    simulated = simulate(intervals=PER_BLOCK * 22)
    intervals, began = simulated.intervals, 21 * PER_BLOCK
    assert intervals.count is not None
    assert intervals.texts is not None
    calls = np.random.default_rng(1).poisson(1.0, (len(intervals), 1)).astype(float)
    calls[:began] = 0.0
    cpu = 0.4 * calls
    late = ClassIntervals(
        names=(*intervals.names, "report"),
        seconds=intervals.seconds,
        statement_time=np.hstack((intervals.statement_time, 1.2 * cpu)),
        count=np.hstack((intervals.count, calls)),
        sizes=tuple((name, np.hstack((table, calls))) for name, table in intervals.sizes),
        texts=(*intervals.texts, "SELECT `report`"),
    )
    model = SlidingModel(RESOURCES[0], BLOCKS)
    for start in range(0, len(late), PER_BLOCK):
        part = slice(start, start + PER_BLOCK)
        found = model.add_block(late.at(part), (simulated.y + cpu[:, 0])[part], HOST)
    assert found.uses[-1] == pytest.approx(cpu.sum(), rel=0.25)


def test_the_recent_use_of_a_class_without_a_column_passes_to_other() -> None:
    """The recent sums are those of all that was divided, whichever classes have a column."""
    simulated = simulate(intervals=PER_BLOCK * 12)
    intervals, y = simulated.intervals, simulated.y
    model, blocks = SlidingModel(RESOURCES[0], BLOCKS), 6
    whole = (*intervals.names, OTHER)
    fewer = tuple(name for name in whole if name != "scan")
    for start in range(0, len(intervals), PER_BLOCK):
        names = whole if start < blocks * PER_BLOCK else fewer
        part = slice(start, start + PER_BLOCK)
        before = sum(model.recent_use().values())
        found = model.add_block(pooled(intervals.at(part), names, OTHER), y[part], HOST)
        kept = (1 - 1 / BLOCKS) * before
        assert sum(model.recent_use().values()) == pytest.approx(kept + float(found.uses.sum()))
    assert "scan" not in model.recent_use()


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("seconds", [12, 60, 300])
def test_a_file_and_the_daemons_first_block_are_divided_alike(texts: bool, seconds: int) -> None:
    """The same totals, errors and waits for the same intervals: there is one model."""
    simulated = simulate(3, intervals=seconds)
    intervals = simulated.intervals if texts else simulated.without_texts
    live = SlidingModel(RESOURCES[0], BLOCKS).add_block(intervals, simulated.y, HOST)
    found = attribute(intervals, DividedUse(simulated.y, is_cpu_seconds=True), host=HOST)
    assert found.method is live.source
    assert found.totals == pytest.approx(live.uses)
    assert [use.stderr for use in found.classes] == pytest.approx(live.error * live.uses)
    assert [use.waits for use in found.classes] == list(live.waits > 0)


@pytest.mark.parametrize(("resources", "most"), [(RESOURCES[:3], 58), (RESOURCES[3:6], 40)])
def test_the_models_of_a_full_window_take_little_memory(
    resources: tuple[DividedResource, ...], most: int
) -> None:
    """Blocks of the same intervals share what is the same for all; of bytes no times are kept."""
    simulated, blocks = simulate(intervals=PER_BLOCK * 30), 20
    gc.collect()
    tracemalloc.start()
    try:
        models = [SlidingModel(resource, blocks) for resource in resources]
        for start in range(0, len(simulated.intervals), PER_BLOCK):
            part = slice(start, start + PER_BLOCK)
            intervals = simulated.intervals.at(part)
            for model in models:
                model.add_block(intervals, simulated.y[part], HOST)
        del intervals
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < most * 1024 * len(models)
