"""The blocks of a long window, in bounded memory."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_classes import simulate

from models.attribution.call_and_row_costs import UnitCosts, fit_unit_costs
from models.attribution.class_interval_table import OTHER
from models.attribution.rolling_block_sums import (
    Block,
    RollingBlocks,
    merge_blocks,
)

INTERVALS = 10
LOOK = 7  # every so many blocks the sums are looked at


def block_and_unit_costs() -> tuple[Block, UnitCosts]:
    """Ten intervals of some classes."""
    simulated = simulate(intervals=INTERVALS)
    intervals = replace(simulated.intervals, names=(*simulated.intervals.names[:-1], OTHER))
    unit_costs = fit_unit_costs(intervals, simulated.y)
    return Block.of(
        intervals, simulated.y, intervals.statement_time, unit_costs, np.ones(INTERVALS)
    ), unit_costs


@pytest.mark.parametrize(
    ("window", "fewest", "held"),
    [
        (1, 11, 20),
        (20, 11, 20),
        (25, 11, 20),
        (26, 21, 30),
        (60, 51, 60),
        (180, 161, 180),
        (1440, 1321, 1440),
        pytest.param(17_280, 15_841, 17_280, marks=pytest.mark.long),
    ],
)
def test_a_long_window_is_kept_as_few_sums(window: int, fewest: int, held: int) -> None:
    """Each block counts once, until it is older than the window, or up to a group less."""
    block, unit_costs = block_and_unit_costs()
    past, most, lengths = RollingBlocks(window), 0, list[int]()
    for number in range(1, 3 * window // 2 + 50):
        past.add(block, unit_costs)
        if number % LOOK == 0:
            most = max(most, len(past.blocks))
        lengths.append(len(past))
        assert min(number, fewest) <= len(past)
    assert (min(lengths[held:]), max(lengths)) == (fewest, held)
    assert most <= 23
    together = merge_blocks(past.blocks, unit_costs, block.names)
    assert together.moments.intervals == INTERVALS * len(past)
    assert together.moments.gram == pytest.approx(len(past) * block.moments.gram)
    assert block.times is not None
    assert together.times is not None
    assert together.times.work == pytest.approx(len(past) * block.times.work)


def test_blocks_with_other_features_start_a_new_window() -> None:
    """As after an upgrade of the server: earlier counts cannot be added."""
    block, unit_costs = block_and_unit_costs()
    past = RollingBlocks(60)
    for _ in range(25):
        past.add(block, unit_costs)
    past.add(replace(block, features=tuple(f"other_{name}" for name in block.features)), unit_costs)
    assert len(past) == 1
