"""Blocks of ticks as sums: what a window that slides is made of.

A block keeps of its ticks what a fit needs: moments of the classes' priced regressors, moments of
what prices are fitted from, and each class's totals. Blocks add up once they speak of the same
classes (`arranged`) at the same prices (`repriced`); nothing is ever subtracted. Repricing is exact
where a class's calls and rows keep their proportion within a block, and where they do not it still
keeps the totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.attribution.autocorrelation import NO_ECHO, Autocorrelation
from models.attribution.class_intervals import Array, ClassIntervals
from models.attribution.deliberate_waits import CpuBounds
from models.attribution.elasticity import Elasticity
from models.attribution.sufficient_statistics import Moments
from models.attribution.unit_costs import (
    FREE_CALL_SHARE,
    LEAST_CALL_SHARE,
    UnitCosts,
    calls,
    price_features,
)


@dataclass(frozen=True)
class Block:
    """Sums over ticks of K classes and one target y."""

    names: tuple[str, ...]
    features: tuple[str, ...]
    """What is priced: calls, then the sizes that are known; F of them."""
    moments: Moments
    """Of the priced regressors, shape (K+1, K+1)."""
    pooled: Moments
    """Of the features summed over classes, shape (F+1, F+1)."""
    uses: Array
    """Each class's calls and sizes, shape (K, F)."""
    work: Array
    """Each class's work time, s, shape (K,)."""
    stretch: Elasticity
    """How its time per call went with the others'."""
    echo: Autocorrelation
    """How y missed what was expected."""

    @classmethod
    def of(
        cls,
        ticks: ClassIntervals,
        y: Array,
        work: Array,
        prices: UnitCosts,
        weights: Array,
        echo: Autocorrelation = NO_ECHO,
    ) -> "Block":
        """Sum up ticks and their y, shape (T,), work, shape (T, K), and weights, shape (T,)."""
        tables, size = [calls(ticks), *(table for _, table in ticks.sizes)], prices.price(ticks)
        together = np.column_stack([table.sum(axis=1) for table in tables])
        return cls(
            names=ticks.names,
            features=("calls", *(name for name, _ in ticks.sizes)),
            moments=Moments.of(size, ticks.seconds, y, weights),
            pooled=Moments.of(together, ticks.seconds, y, weights),
            uses=np.column_stack([table.sum(axis=0) for table in tables]),
            work=work.sum(axis=0),
            stretch=Elasticity.of_parts(work, calls(ticks), size),
            echo=echo,
        )

    def arranged(self, names: tuple[str, ...], rest: str) -> "Block":
        """Speak of these classes; what others did is the class `rest`, one of them."""
        if names == self.names:
            return self
        place = {name: i for i, name in enumerate(names)}
        had = {name: i for i, name in enumerate(self.names)}
        to = np.zeros((len(names) + 1, len(self.names) + 1))
        for i, name in enumerate(self.names):
            to[place.get(name, place[rest]), i] = 1.0
        to[-1, -1] = 1.0
        moments = replace(
            self.moments,
            gram=to @ self.moments.gram @ to.T,
            projection=to @ self.moments.projection,
            totals=to @ self.moments.totals,
        )
        classes = to[:-1, :-1]
        return replace(
            self,
            names=names,
            moments=moments,
            uses=classes @ self.uses,
            work=classes @ self.work,
            stretch=self.stretch.at([had.get(name, -1) for name in names]),
        )

    def repriced(self, prices: UnitCosts) -> "Block":
        """Measure each class's regressor at these prices."""
        by_name = {"calls": prices.per_call, **dict(prices.sizes)}
        wanted = self.uses @ np.array([by_name.get(name, 0.0) for name in self.features])
        had = self.moments.totals[:-1]
        ratio = np.append(np.where(had > 0, wanted / np.where(had > 0, had, 1.0), 0.0), 1.0)
        moments = replace(
            self.moments,
            gram=self.moments.gram * ratio[:, None] * ratio,
            projection=self.moments.projection * ratio,
            totals=self.moments.totals * ratio,
        )
        return replace(self, moments=moments)

    def __add__(self, other: "Block") -> "Block":
        """Add the ticks of another block, of the same classes, features and prices."""
        if (self.names, self.features) != (other.names, other.features):
            raise ValueError("blocks of other classes or features: arrange them first")
        return replace(
            self,
            moments=self.moments + other.moments,
            pooled=self.pooled + other.pooled,
            uses=self.uses + other.uses,
            work=self.work + other.work,
            stretch=self.stretch + other.stretch,
            echo=self.echo + other.echo,
        )


def prices_of(
    blocks: Sequence[Block], *, time_like: bool, bounds: CpuBounds | None = None
) -> UnitCosts:
    """Fit the prices that all classes share to these blocks' ticks; they have the same features."""
    pooled = blocks[0].pooled
    for block in blocks[1:]:
        pooled = pooled + block.pooled
    least = FREE_CALL_SHARE if time_like else LEAST_CALL_SHARE
    return price_features(pooled, blocks[0].features[1:], least, bounds)
