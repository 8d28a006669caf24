"""The model of one resource over a window that advances by a minute, and the classes' shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.attribution.background_use import BackgroundUse, UnattributedUse
from models.attribution.block_model import (
    WindowModel,
    block_unit_costs,
    first_block,
    weighted_block,
)
from models.attribution.call_and_row_costs import PART_OF_CPU, CpuBounds
from models.attribution.class_interval_table import OTHER, ClassIntervals
from models.attribution.cost_model import CostModel
from models.attribution.division_methods import (
    DividedResource,
    DividedUse,
    capped_work_time,
    limit_parts,
)
from models.attribution.long_statements import LongStatements
from models.attribution.quality_gate import gate_mask
from models.attribution.result import DivisionMethod, HostUse, PredictionError, disagreement
from models.attribution.rolling_block_sums import RollingBlocks
from models.attribution.sufficient_statistics import Autocorrelation, RegressionSums
from models.attribution.waiting_classes import min_computing_level

REFIT_SHARE = 0.1
"""The fit is repeated when this share of its window is new; it is most of the computing cost."""
UNKNOWN_CLASS_SHARE = 0.02
"""It is repeated at once when classes that it does not know did this share of a block's work."""
MAX_COMPARED_BLOCKS = 240
"""Blocks whose predicted and actual use are kept, to compare them."""


@dataclass(frozen=True)
class ClassShares:
    """The use by each class in a block of intervals, units of the resource, shape (K,)."""

    source: DivisionMethod
    uses: Array
    error: Array
    """Standard error of an estimate as a share of it; NaN where it is not known."""
    waits: Array
    """1 for a class that waits: its time passes without use."""

    @property
    def is_measured(self) -> bool:
        """Whether the server itself accounts for the use of each class."""
        return self.source is DivisionMethod.MEASURED

    def relative_error(self, classes: Mask) -> float | None:
        """Return the standard error of these classes' use together as a share of it.

        `classes` has shape (K,); their errors count as independent. None if the use was measured,
        or if no error is known.
        """
        known = classes & np.isfinite(self.error)
        uses = self.uses[known]
        used = float(uses.sum())
        if self.is_measured or used <= 0:
            return None
        errors = self.error[known] * uses
        return sqrt(errors @ errors) / used

    def waiting(self, names: Sequence[str]) -> frozenset[str]:
        """Return the names of the classes whose time passes without use."""
        return frozenset(name for name, waits in zip(names, self.waits, strict=True) if waits)


class SlidingModel:
    """The model of a resource, fitted block by block; `blocks` is the length of the window."""

    def __init__(self, resource: DividedResource, blocks: int) -> None:
        self.resource = resource
        self.held_out = PredictionError(None, None, None)
        """The error of predicting y in each block's intervals by the fit to earlier blocks."""
        self._keep = 1 - 1 / blocks
        self._window_blocks = blocks
        self._blocks = RollingBlocks(blocks)
        self._long_statements = LongStatements(self._keep)
        self._compared = np.zeros((2, 0))
        """The use in the intervals of the compared blocks, and what was predicted, shape (2, T)."""
        self._compared_lengths: list[int] = []  # intervals of each compared block
        self._max_compared = min(blocks, MAX_COMPARED_BLOCKS)
        self._fit: WindowModel | None = None
        self._blocks_since_fit = 0
        self._levels = np.zeros(0)
        """The least level of each block of the window, shape (blocks,)."""
        self._names: tuple[str, ...] = ()
        self._use, self._estimate = np.zeros(0), np.zeros(0)
        self._lines = RegressionSums.empty(0)
        self._total = self._explained = 0.0
        self._background = BackgroundUse.empty()

    @property
    def intervals(self) -> int:
        """The number of intervals to which the model was fitted."""
        return self._fit.intervals if self._fit else 0

    @property
    def level(self) -> float | None:
        """Use per second of work time of the classes that compute."""
        return self._fit.model.mixture.level if self._fit else None

    @property
    def disagreement(self) -> float | None:
        """Σ|share − other share|, measured and estimated, over the recent blocks."""
        if np.array_equal(self._use, self._estimate):
            return None
        return disagreement(self._use, self._estimate)

    @property
    def recent_total(self) -> float:
        """Recent use, including what no class explains; older blocks count less."""
        return self._total

    @property
    def unattributed_share(self) -> float | None:
        """The part of the resource that no class explains, over the recent blocks."""
        if self._total <= 0:
            return None
        return min(max(1 - self._explained / self._total, 0.0), 1.0)

    @property
    def unattributed_use(self) -> UnattributedUse:
        """The use that no client's class explains, as parts of all recent use."""
        return self._background.unattributed_use(self._total)

    def recent_use(self) -> dict[str, float]:
        """Return the recent use of each class; older blocks count less."""
        return dict(zip(self._names, map(float, self._use), strict=True))

    def lines(self) -> tuple[tuple[str, ...], RegressionSums]:
        """Return the classes, and the sums for the line of the use of each over its work time."""
        return self._names, self._lines

    def add_block(self, intervals: ClassIntervals, y: Array, host: HostUse) -> ClassShares:
        """Add a block of intervals to the window, and divide its y, shape (T,), over the classes.

        The window's least level of CPU per work time is that of its busiest block.
        """
        level = min_computing_level(host.running, host.io_wait)
        self._levels = np.append(self._levels, level)[-self._window_blocks :]
        if self.resource.is_cpu:
            intervals = self._long_statements.moved(intervals)
        work = capped_work_time(intervals)
        self._change_classes(intervals.names)
        use = self._divided_use(y)
        self._update_fit(intervals, use, work)
        parts, error, waits = self._estimate_parts(intervals, use)
        whole = self.resource.is_cpu and not self.resource.is_part_of_cpu
        measured = whole and intervals.cpu is not None and bool(intervals.cpu.any())
        z = intervals.cpu if measured and intervals.cpu is not None else parts
        self._update_recent(y, z, parts, work)
        background = BackgroundUse.of(intervals, y, z)
        self._background = self._background.faded(self._keep) + background
        return ClassShares(
            source=DivisionMethod.MEASURED if measured else self._source(intervals),
            uses=z.sum(axis=0),
            error=error,
            waits=waits,
        )

    def _divided_use(self, y: Array) -> DividedUse:
        cpu, least = self.resource.is_cpu, float(self._levels.min())
        bounds = PART_OF_CPU if self.resource.is_part_of_cpu else CpuBounds(least)
        return DividedUse(y, is_cpu_seconds=cpu, time_like=cpu, bounds=bounds)

    def _source(self, intervals: ClassIntervals) -> DivisionMethod:
        known = self.resource.is_cpu and intervals.texts is not None and any(intervals.texts)
        return DivisionMethod.WORK_TIME if known else DivisionMethod.LEARNED

    def _update_fit(self, intervals: ClassIntervals, use: DividedUse, work: Array) -> None:
        """Compare y with its prediction, add the block, and refit the window if outdated."""
        own_unit_costs = None
        if self._fit is None:
            own_unit_costs = unit_costs = block_unit_costs(intervals, use)
            block = first_block(intervals, use, unit_costs)
        else:
            model = self._fit.model
            expected = model.predict(intervals)
            self._compare(use.y, expected)
            unit_costs = model.shared_costs or block_unit_costs(intervals, use)
            block = weighted_block(
                intervals, use, unit_costs, expected, Autocorrelation.of(use.y, expected)
            )
        self._blocks.add(block, unit_costs)
        self._blocks_since_fit += 1
        if self._is_outdated(intervals, work):
            blocks = self._blocks.blocks
            self._fit = WindowModel.of(
                blocks, intervals.names, use, intervals.texts, own_unit_costs
            )
            self._blocks_since_fit = 0

    def _compare(self, y: Array, expected: Array) -> None:
        """Keep a block's use and its prediction, shape (T,) each, to compare them."""
        self._compared_lengths.append(len(y))
        too_old = 0
        if len(self._compared_lengths) > self._max_compared:
            too_old = self._compared_lengths.pop(0)
        self._compared = np.hstack((self._compared[:, too_old:], (y, expected)))
        self.held_out = PredictionError.of(*self._compared)

    def _is_outdated(self, intervals: ClassIntervals, work: Array) -> bool:
        """Return whether too many blocks, or too much of this one's work, are new to the fit."""
        if self._fit is None:
            return True
        is_old = self._blocks_since_fit >= REFIT_SHARE * len(self._blocks)
        return is_old or self._has_unknown_classes(self._fit.model, intervals, work)

    def _has_unknown_classes(
        self, model: CostModel, intervals: ClassIntervals, work: Array
    ) -> bool:
        """Return whether classes that the fit does not know did much of the work.

        Where they use the resource by their time, one with few calls and rows may be large too.
        """
        known = set(model.names)
        is_unknown = np.array([name not in known for name in intervals.names])
        measures = [model.regressors(intervals)]
        if self.resource.is_cpu:
            measures.append(work)
        return any(
            float(each[:, is_unknown].sum()) > UNKNOWN_CLASS_SHARE * float(each.sum())
            for each in measures
        )

    def _estimate_parts(
        self, intervals: ClassIntervals, use: DividedUse
    ) -> tuple[Array, Array, Array]:
        """Estimate parts, (T, K), relative errors and waits, (K,) each, by the latest fit."""
        classes = len(intervals.names)
        if self._fit is None or not self._fit.model.names:
            return np.zeros((len(intervals), classes)), np.full(classes, np.nan), np.zeros(classes)
        division = limit_parts(self._fit.divide(intervals, use), intervals, use)
        used = division.z.sum(axis=0)
        error = np.where(used > 0, division.error / np.where(used > 0, used, 1.0), np.nan)
        if self.resource.is_cpu:
            return division.z, error, division.waits.astype(np.float64)
        passed = gate_mask(self.resource.name, intervals, self.held_out)
        error = np.where(passed > 0, error, np.nan)
        return division.z * passed, error, division.waits.astype(np.float64)

    def _update_recent(self, y: Array, z: Array, estimate: Array, work: Array) -> None:
        keep = self._keep
        self._use = keep * self._use + z.sum(axis=0)
        self._estimate = keep * self._estimate + estimate.sum(axis=0)
        self._lines = self._lines.faded(keep) + RegressionSums.of(work, z)
        self._total = keep * self._total + float(y.sum())
        self._explained = keep * self._explained + float(z.sum())

    def _change_classes(self, names: tuple[str, ...]) -> None:
        """Change to these classes; the recent use of classes left out is added to `other`."""
        if names == self._names:
            return
        before = {name: i for i, name in enumerate(self._names)}
        indices = np.array([before.get(name, -1) for name in names], dtype=np.intp)
        self._lines = self._lines.arranged(indices)
        self._use, self._estimate = (
            _arranged(values, indices, names) for values in (self._use, self._estimate)
        )
        self._names = names


def _arranged(values: Array, indices: NDArray[np.intp], names: tuple[str, ...]) -> Array:
    """Return the values at these indices, −1 for a new class; those left out go to `other`."""
    if not len(values):
        return np.zeros(len(names))
    result: Array = np.where(indices >= 0, values[indices], 0.0)
    if OTHER in names:
        result[names.index(OTHER)] += np.delete(values, indices[indices >= 0]).sum()
    return result
