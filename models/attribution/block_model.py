"""The model of a window of blocks: the costs of its classes, and their use of a resource.

The agent's window is the blocks of an hour, with a new one each minute; that of `profile` or of a
file is one block. Both are fitted and divided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.attribution.call_and_row_costs import (
    MIN_CALL_SHARE,
    UnitCosts,
    fit_unit_costs,
    robust_weights,
)
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.cost_model import CostModel, fit_block, fit_statement_times
from models.attribution.division_methods import (
    DividedUse,
    Parts,
    computing_share,
    computing_time,
    divide_by_model,
)
from models.attribution.rolling_block_sums import Block, merge_blocks, unit_costs_of_blocks
from models.attribution.sufficient_statistics import MIN_SHARE, NO_ERRORS, Autocorrelation
from models.shared_constants import MIN_FIT_INTERVALS


@dataclass(frozen=True)
class WindowModel:
    """A fitted cost model, and how far each class computes according to it."""

    model: CostModel
    computing: Array
    """The part of its work time in which each class of the model computes, 0..1, shape (K,); 1
    where the use does not follow time."""

    @property
    def intervals(self) -> int:
        """The number of intervals to which the model was fitted."""
        return self.model.mixture.intervals

    @classmethod
    def of(
        cls,
        blocks: Sequence[Block],
        names: tuple[str, ...],
        use: DividedUse,
        texts: Sequence[str | None] | None,
        unit_costs: UnitCosts | None = None,
    ) -> "WindowModel":
        """Fit blocks of the divided resource; its y is not used.

        Classes that are not among `names` are added to `other`; `texts` are the digest texts of
        `names`. `unit_costs` are those of the only block, fitted to its intervals; None: they are
        fitted to the blocks' sums.
        """
        time_like, bounds = use.time_like, use.cpu_bounds
        unit_costs = unit_costs or unit_costs_of_blocks(blocks, time_like=time_like, bounds=bounds)
        whole_window = merge_blocks(blocks, unit_costs, names)
        model, waiting = fit_block(whole_window, unit_costs, bounds=bounds, texts=texts)
        if whole_window.times is None:
            return cls(model, np.ones(len(model.names)))
        index = {name: i for i, name in enumerate(whole_window.names)}
        work = whole_window.times.work[[index[name] for name in model.names]]
        return cls(model, computing_share(model, work, waiting))

    def divide(self, intervals: ClassIntervals, use: DividedUse) -> Parts:
        """Divide the use over the classes of the intervals; those not in the model get 0."""
        return divide_by_model(self.model, self.computing, intervals, use)


def fit_intervals(intervals: ClassIntervals, use: DividedUse) -> WindowModel:
    """Fit a window of one block; to the statement times alone if no calls are known."""
    if intervals.count is None or not intervals.count.any():
        model = fit_statement_times(intervals, use.y)
        return WindowModel(model, np.ones(len(model.names)))
    unit_costs = block_unit_costs(intervals, use)
    block = first_block(intervals, use, unit_costs)
    return WindowModel.of([block], intervals.names, use, intervals.texts, unit_costs)


def first_block(intervals: ClassIntervals, use: DividedUse, unit_costs: UnitCosts) -> Block:
    """Sum up the first intervals; the expected use comes from a fit to themselves."""
    expected = unit_costs.total(intervals)
    if use.time_like and len(intervals) >= MIN_FIT_INTERVALS:
        first = weighted_block(intervals, use, unit_costs, expected, NO_ERRORS)
        # with fewer, by unit costs alone: for 12 the error is 0.24 by the fit, 0.16 by unit costs
        model = WindowModel.of([first], intervals.names, use, intervals.texts, unit_costs).model
        expected = model.predict(intervals)
    return weighted_block(intervals, use, unit_costs, expected, Autocorrelation.of(use.y, expected))


def weighted_block(
    intervals: ClassIntervals,
    use: DividedUse,
    unit_costs: UnitCosts,
    expected: Array,
    errors: Autocorrelation,
) -> Block:
    """Sum up intervals at these unit costs; those far from the expected y count less.

    `expected` has shape (T,), in units of the resource.
    """
    weights = robust_weights(use.y, expected)
    work = computing_time(intervals) if use.time_like else None
    return Block.of(intervals, use.y, work, unit_costs, weights, errors)


def block_unit_costs(intervals: ClassIntervals, use: DividedUse) -> UnitCosts:
    """Fit the unit costs that all classes share to one block's intervals."""
    least = MIN_SHARE if use.time_like else MIN_CALL_SHARE
    return fit_unit_costs(intervals, use.y, least, use.cpu_bounds)
