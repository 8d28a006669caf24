"""Sums over blocks of intervals, of which a sliding window consists.

A block keeps of its intervals what a fit needs: moments of the classes' regressors (calls and rows
at their unit costs), moments for the fit of unit costs, and each class's totals. Blocks can be
added once they have the same classes (`with_classes`) and the same unit costs (`with_unit_costs`);
nothing is ever subtracted. That is exact where a class's calls and rows keep their proportion
within a block; otherwise the totals are still exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Array, Mask
from models.attribution.call_and_row_costs import (
    MIN_CALL_SHARE,
    CpuBounds,
    UnitCosts,
    call_counts,
    unit_costs_from_sums,
)
from models.attribution.class_interval_table import OTHER, ClassIntervals
from models.attribution.sufficient_statistics import (
    MIN_SHARE,
    NO_ERRORS,
    Autocorrelation,
    Moments,
)
from models.attribution.waiting_classes import Elasticity


@dataclass(frozen=True, slots=True)
class TimeSums:
    """Sums of the work times of K classes, for a resource that they use in proportion to time."""

    work: Array
    """Each class's work time, s, shape (K,)."""
    elasticity: Elasticity
    """How each class's time per call varied with that of the others."""

    def __add__(self, other: "TimeSums") -> "TimeSums":
        """Add the intervals of another block, of the same classes."""
        return TimeSums(self.work + other.work, self.elasticity + other.elasticity)


@dataclass(frozen=True, slots=True)
class Block:
    """Sums over intervals of K classes and the divided use y."""

    names: tuple[str, ...]
    features: tuple[str, ...]
    """The features with a unit cost: calls, then the sizes that are known; F of them."""
    moments: Moments
    """Of the regressors at their unit costs, shape (K+1, K+1)."""
    pooled: Moments
    """Of the features summed over classes, shape (F+1, F+1)."""
    uses: Array
    """Each class's calls and sizes, shape (K, F)."""
    times: TimeSums | None
    """None for a resource whose use does not follow time, such as bytes."""
    errors: Autocorrelation
    """The deviations of y from what was expected."""

    @classmethod
    def of(
        cls,
        intervals: ClassIntervals,
        y: Array,
        work: Array | None,
        unit_costs: UnitCosts,
        weights: Array,
        errors: Autocorrelation = NO_ERRORS,
    ) -> "Block":
        """Sum up intervals with y, shape (T,), work, shape (T, K), and weights, shape (T,).

        work: None for a resource whose use does not follow time.
        """
        size = unit_costs.costs(intervals)
        times = None
        if work is not None:
            elasticity = Elasticity.of_parts(work, call_counts(intervals), size)
            times = TimeSums(work.sum(axis=0), elasticity)
        return cls(
            names=intervals.names,
            features=("calls", *(name for name, _ in intervals.sizes)),
            moments=Moments.of(size, intervals.seconds, y, weights),
            pooled=Moments.of(intervals.features, intervals.seconds, y, weights),
            uses=intervals.uses,
            times=times,
            errors=errors,
        )

    def with_classes(self, names: tuple[str, ...]) -> "Block":
        """Return the block with these classes; all others are added to `OTHER`, one of them."""
        if names == self.names:
            return self
        place = {name: i for i, name in enumerate(names)}
        old_place = {name: i for i, name in enumerate(self.names)}
        to = np.zeros((len(names) + 1, len(self.names) + 1))
        to[[place.get(name, place[OTHER]) for name in self.names], range(len(self.names))] = 1.0
        to[-1, -1] = 1.0
        moments = replace(
            self.moments,
            gram=to @ self.moments.gram @ to.T,
            projection=to @ self.moments.projection,
            totals=to @ self.moments.totals,
        )
        classes, times = to[:-1, :-1], self.times
        if times is not None:
            elasticity = times.elasticity.at([old_place.get(name, -1) for name in names])
            times = TimeSums(classes @ times.work, elasticity)
        return replace(self, names=names, moments=moments, uses=classes @ self.uses, times=times)

    def with_unit_costs(self, unit_costs: UnitCosts) -> "Block":
        """Return the block with each class's regressor at these unit costs."""
        by_name = {"calls": unit_costs.per_call, **dict(unit_costs.sizes)}
        new_totals = self.uses @ np.array([by_name.get(name, 0.0) for name in self.features])
        old_totals = self.moments.totals[:-1]
        ratio = np.append(
            np.where(old_totals > 0, new_totals / np.where(old_totals > 0, old_totals, 1.0), 0.0),
            1.0,
        )
        return replace(self, moments=self.moments.with_factors(ratio))

    def __add__(self, other: "Block") -> "Block":
        """Add the intervals of another block, of the same classes, features and unit costs.

        Both are of the same resource: either both have times, or none.
        """
        if (self.names, self.features) != (other.names, other.features):
            raise ValueError("the blocks have different classes or features; arrange them first")
        return replace(
            self,
            moments=self.moments + other.moments,
            pooled=self.pooled + other.pooled,
            uses=self.uses + other.uses,
            times=self.times + other.times if self.times and other.times else None,
            errors=self.errors + other.errors,
        )


def unit_costs_of_blocks(
    blocks: Sequence[Block], *, time_like: bool, bounds: CpuBounds | None = None
) -> UnitCosts:
    """Fit the unit costs that all classes share to these blocks, which have the same features."""
    pooled = blocks[0].pooled
    for block in blocks[1:]:
        pooled = pooled + block.pooled
    least = MIN_SHARE if time_like else MIN_CALL_SHARE
    return unit_costs_from_sums(pooled, blocks[0].features[1:], least, bounds)


RECENT_BLOCKS = 10  # blocks that are kept separately, and that are added to a group together
MAX_GROUPS = 12


class RollingBlocks:
    """The latest blocks: the number requested, in tens and at least 20, or up to a group less.

    A group is ten blocks, or about a twelfth of them all where that is more: a window of 1 to 25
    blocks holds 11 to 20, one of 60 holds 51 to 60, one of 1,440 holds 1,321 to 1,440.

    Old blocks are kept as sums, so memory depends on the number of tracked classes, and hardly on
    the window's length. Nearly all of it is the blocks' matrices, which are symmetric: half of each
    is kept.
    """

    def __init__(self, blocks: int) -> None:
        self._max_in_groups = RECENT_BLOCKS * max(1, round(blocks / RECENT_BLOCKS) - 1)
        self._max_in_one_group = RECENT_BLOCKS * max(
            1, round(blocks / (RECENT_BLOCKS * MAX_GROUPS))
        )
        self._recent: list[Block] = []
        self._groups: list[tuple[int, Block]] = []  # how many blocks each is the sum of

    def __len__(self) -> int:
        """Return the number of blocks held."""
        return sum(count for count, _ in self._groups) + len(self._recent)

    def add(self, block: Block, unit_costs: UnitCosts) -> None:
        """Add a block; the ten oldest recent ones are added to the latest group, at these costs."""
        if self._recent and self._recent[-1].features != block.features:
            self._recent.clear()
            self._groups.clear()
        self._recent.append(_pack(block))
        if len(self._recent) > RECENT_BLOCKS:
            old, self._recent = self._recent[:RECENT_BLOCKS], self._recent[RECENT_BLOCKS:]
            self._move_to_groups(old, unit_costs, block.names)

    def _move_to_groups(
        self, old: list[Block], unit_costs: UnitCosts, names: tuple[str, ...]
    ) -> None:
        """Add blocks to the latest group, or to a new one if that is full; drop groups too old."""
        count, blocks = len(old), list(map(_unpack, old))
        if self._groups and self._groups[-1][0] < self._max_in_one_group:
            before, group = self._groups.pop()
            count, blocks = before + count, [_unpack(group), *blocks]
        self._groups.append((count, _pack(merge_blocks(blocks, unit_costs, names))))
        while len(self) - len(self._recent) > self._max_in_groups:
            del self._groups[0]

    @property
    def blocks(self) -> list[Block]:
        """The sums of the groups, and the recent blocks."""
        return [_unpack(block) for block in (*(group for _, group in self._groups), *self._recent)]


def merge_blocks(blocks: Sequence[Block], unit_costs: UnitCosts, names: tuple[str, ...]) -> Block:
    """Sum up blocks, converted to these classes and unit costs."""
    first, *others = (block.with_unit_costs(unit_costs).with_classes(names) for block in blocks)
    for block in others:
        first = first + block
    return first


def _pack(block: Block) -> Block:
    """Return the block with the upper triangle of its matrix only, shape ((K+1)(K+2)/2,)."""
    gram = block.moments.gram
    return replace(block, moments=replace(block.moments, gram=gram[_upper_triangle(len(gram))]))


def _unpack(block: Block) -> Block:
    """Return a packed block with its full matrix."""
    size = len(block.moments.projection)
    gram, upper = np.empty((size, size)), _upper_triangle(size)
    gram[upper] = gram.T[upper] = block.moments.gram
    return replace(block, moments=replace(block.moments, gram=gram))


def _upper_triangle(size: int) -> Mask:
    """Mark the upper triangle and the diagonal, shape (size, size)."""
    return np.tri(size, dtype=np.bool_).T
