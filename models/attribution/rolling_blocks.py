"""The blocks of a window that slides: the latest each, those before in groups.

Old blocks are kept as sums (`models.attribution.blocks`), in no more groups than `MOST_GROUPS`, so
memory depends on the tracked classes alone, and hardly on the window's length. Nearly all of it is
the blocks' matrices, which are symmetric: half of each is kept.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.attribution.blocks import Block
from models.attribution.class_intervals import OTHER
from models.attribution.unit_costs import UnitCosts

RECENT = 10  # blocks that are kept apart, and that are added to a group at once
MOST_GROUPS = 12


class RollingBlocks:
    """Holds so many of the latest blocks, in tens and 20 at least, or up to a group less.

    A group is ten blocks, or about a twelfth of them all where that is more: a window of 1 to 25
    blocks holds 11 to 20, one of 60 holds 51 to 60, one of 1,440 holds 1,321 to 1,440.
    """

    def __init__(self, blocks: int) -> None:
        self._in_groups = RECENT * max(1, round(blocks / RECENT) - 1)
        self._in_one = RECENT * max(1, round(blocks / (RECENT * MOST_GROUPS)))
        self._recent: list[Block] = []
        self._groups: deque[tuple[int, Block]] = deque()  # how many blocks each is the sum of

    def __len__(self) -> int:
        """How many blocks are held."""
        return sum(count for count, _ in self._groups) + len(self._recent)

    def add(self, block: Block, prices: UnitCosts) -> None:
        """Keep a block; ten that are old are added to the latest group, at these prices."""
        if self._recent and self._recent[-1].features != block.features:
            self._recent.clear()
            self._groups.clear()
        self._recent.append(_halved(block))
        if len(self._recent) > RECENT:
            old, self._recent = self._recent[:RECENT], self._recent[RECENT:]
            self._age(old, prices, block.names)

    def _age(self, old: list[Block], prices: UnitCosts, names: tuple[str, ...]) -> None:
        """Add these to the latest group until it is full; let go what is too old."""
        count, blocks = len(old), list(map(_whole, old))
        if self._groups and self._groups[-1][0] < self._in_one:
            before, group = self._groups.pop()
            count, blocks = before + count, [_whole(group), *blocks]
        self._groups.append((count, _halved(summed(blocks, prices, names))))
        while len(self) - len(self._recent) > self._in_groups:
            self._groups.popleft()

    @property
    def blocks(self) -> list[Block]:
        """The groups, and the latest blocks."""
        return [_whole(block) for block in (*(group for _, group in self._groups), *self._recent)]


def summed(blocks: Sequence[Block], prices: UnitCosts, names: tuple[str, ...]) -> Block:
    """Add blocks up, of these classes and at these prices."""
    first, *others = (block.repriced(prices).arranged(names, OTHER) for block in blocks)
    for block in others:
        first = first + block
    return first


def _halved(block: Block) -> Block:
    """The same with the upper half of its matrix alone, shape ((K+1)(K+2)/2,)."""
    gram = block.moments.gram
    return replace(block, moments=replace(block.moments, gram=gram[np.triu_indices(len(gram))]))


def _whole(block: Block) -> Block:
    """The block as it was before it was halved."""
    size = len(block.moments.projection)
    gram = np.zeros((size, size))
    gram[np.triu_indices(size)] = block.moments.gram
    gram += np.triu(gram, 1).T
    return replace(block, moments=replace(block.moments, gram=gram))
