"""The model of a window of blocks: what its classes cost, and what they used of a resource.

The agent's window is the blocks of an hour, one more each minute; a watch or a file is a window of
one block. Both are fitted and divided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.attribution.blocks import Block, summed, unit_costs_of_blocks
from models.attribution.class_intervals import Array, ClassIntervals
from models.attribution.cost_model import CostModel, fit_block, fit_statement_times
from models.attribution.estimators import (
    Parts,
    Target,
    by_model,
    computing_share,
    computing_time,
    work_of,
)
from models.attribution.sufficient_statistics import NO_ERRORS, Autocorrelation
from models.attribution.unit_costs import (
    FREE_CALL_SHARE,
    LEAST_CALL_SHARE,
    UnitCosts,
    fit_unit_costs,
    robust_weights,
)

LEAST_FITTED = 20
"""Ticks of a first block whose own fit is believed; of fewer the prices alone say what was to be
expected (blocks of 12 s: an error of 0.24 by their fit where it was 0.16 by the prices)."""


@dataclass(frozen=True)
class WindowModel:
    """A fit, and what it says of which classes compute."""

    model: CostModel
    computing: Array
    """The part of its work time in which each class of the model computes, 0..1, shape (K,)."""

    @property
    def ticks(self) -> int:
        """The number of ticks that it was learnt from."""
        return self.model.learned.ticks

    @classmethod
    def of(
        cls,
        blocks: Sequence[Block],
        names: tuple[str, ...],
        target: Target,
        texts: Sequence[str | None] | None,
        prices: UnitCosts | None = None,
    ) -> "WindowModel":
        """Fit blocks of a resource like the target, whose y is not looked at.

        Classes that are not among the names are the rest; `texts` are the digest texts by name.
        `prices` are those of the only block, which were fitted to its ticks; None: the sums tell.
        """
        time_like, bounds = target.time_like, target.cpu_bounds
        prices = prices or unit_costs_of_blocks(blocks, time_like=time_like, bounds=bounds)
        together = summed(blocks, prices, names)
        model, waiting = fit_block(
            together, prices, time_like=time_like, bounds=bounds, texts=texts
        )
        place = {name: i for i, name in enumerate(together.names)}
        work = together.work[[place[name] for name in model.names]]
        return cls(model, computing_share(model, work, waiting))

    def divide(self, ticks: ClassIntervals, target: Target) -> Parts:
        """Divide the target over ticks of any classes; those that are not in the model get 0."""
        known = ticks.arranged(self.model.names)
        found = by_model(self.model, self.computing, known, target)
        place = {name: i for i, name in enumerate(self.model.names)}
        here = [i for i, name in enumerate(ticks.names) if name in place]
        source = [place[ticks.names[i]] for i in here]
        z, error = np.zeros((len(ticks), len(ticks.names))), np.full(len(ticks.names), np.nan)
        waits = np.zeros(len(ticks.names), dtype=np.bool_)
        z[:, here] = found.z[:, source]
        error[here], waits[here] = found.error[source], found.waits[source]
        return Parts(z, work_of(ticks), error, waits, self.model)


def fit_ticks(ticks: ClassIntervals, target: Target) -> WindowModel:
    """Fit a window of one block; from the statement times alone where no calls are known."""
    if ticks.count is None or not ticks.count.any():
        model = fit_statement_times(ticks, target.y)
        return WindowModel(model, np.ones(len(model.names)))
    prices = block_prices(ticks, target)
    block = first_block(ticks, target, prices)
    return WindowModel.of([block], ticks.names, target, ticks.texts, prices)


def first_block(ticks: ClassIntervals, target: Target, prices: UnitCosts) -> Block:
    """Sum up ticks before which nothing is known: their own fit says what was to be expected."""
    expected = prices.total(ticks)
    if target.time_like and len(ticks) >= LEAST_FITTED:
        first = block_of(ticks, target, prices, expected, NO_ERRORS)
        model = WindowModel.of([first], ticks.names, target, ticks.texts, prices).model
        expected = model.predict(ticks)
    return block_of(ticks, target, prices, expected, Autocorrelation.of(target.y, expected))


def block_of(
    ticks: ClassIntervals,
    target: Target,
    prices: UnitCosts,
    expected: Array,
    errors: Autocorrelation,
) -> Block:
    """Sum up ticks at these prices; what missed the expected y, shape (T,), by far counts less."""
    weights = robust_weights(target.y, expected)
    return Block.of(ticks, target.y, computing_time(ticks), prices, weights, errors)


def block_prices(ticks: ClassIntervals, target: Target) -> UnitCosts:
    """Fit the prices that all classes share to one block's ticks."""
    least = FREE_CALL_SHARE if target.time_like else LEAST_CALL_SHARE
    return fit_unit_costs(ticks, target.y, least, target.cpu_bounds)
