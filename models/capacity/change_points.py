"""Whether all intervals belong to one workload: finds a change of the mix, or two alternating ones.

Per query, a workload takes a certain time and costs a certain share of each resource at a given
load. A step of these over time is a change: the intervals before it describe another workload. Two
separate levels that alternate are two workloads: day traffic and night jobs.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from models.capacity.cost_curve import MIN_UTILISATION, CostCurve, curve_shape
from models.capacity.limit_types import FULL_UTILISATION
from models.capacity.observations import Observations
from models.capacity.sample_sizes import (
    EPISODE_SHARE,
    GROUP_INTERVALS,
    HIGH_QUANTILE,
    MAJORITY,
    MIN_CURVE_POINTS,
    MIN_NOISE,
    PERIODS,
    QUERY_VARIATION,
)
from models.numerics import NEGLIGIBLE, ROUNDING, TINY, median, quantile
from models.robust import MAD_TO_DEVIATION, mad
from models.usl.law import Array

TIME_PER_QUERY = "time_per_query"
MIN_SIDE_INTERVALS = 10
"""Fewer intervals on one side of a change may be an episode: a backup."""
MIN_STEP = np.log(1.12)
"""A smaller change is not worth the loss of the older intervals."""
MIN_STEP_Z = 8.0
"""How many standard errors a change must be beyond."""
MAX_STEPS = 3
"""So many changes in one window are told apart."""
FAR_DEVIATIONS = 4.0
"""So many deviations off is far: costs count as no further off, and the middles of two clusters are
so many apart."""
MIN_CLUSTER_RATIO = 1.5
"""The more expensive cluster's cost over that of the other, at least: with hyper-threads a
query costs half as much again beyond the cores, and they are no second workload."""
MAX_SWITCHES = 2
"""Two workloads take turns when they change places more often than this."""


@dataclass(frozen=True)
class Change:
    """A step in what a query takes; older intervals are left out."""

    index: int
    """The first interval of the present workload."""
    quantity: str
    """A resource's name, or "time_per_query"."""
    ratio: float
    """After over before."""


@dataclass(frozen=True)
class TwoClusters:
    """Two workloads that take turns; the one that serves fewer queries is left out."""

    quantity: str
    ratio: float
    """The cost of a query in the cluster left out over that in the one kept."""
    share: float
    """The share of the intervals that were left out."""


@dataclass(frozen=True, eq=False)
class Regimes:
    """The intervals of the workload to assess, and what the others were."""

    current: NDArray[np.bool_] = field(repr=False)
    """Shape (intervals,)."""
    change: Change | None = None
    clusters: TwoClusters | None = None


def find_regimes(seen: Observations) -> Regimes:
    """Find the intervals that belong to the workload of now."""
    current = np.ones(len(seen), dtype=np.bool_)
    if len(seen) < MIN_CURVE_POINTS:
        return Regimes(current)
    costs = _costs(seen)
    for name, cost in costs.items():
        split = _split_in_two(name, cost, seen)
        if split is not None and _is_of_the_work(name, split[0], costs, seen):
            return Regimes(split[0], clusters=split[1])
    change = _clearest_change(costs, seen)
    if change is not None:
        current[: change.index] = False
    return Regimes(current, change=change)


def _costs(seen: Observations) -> dict[str, Array]:
    """Per query, the logarithm of its time and of what it costs of each resource."""
    x = seen.throughput
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = {}
        exact = seen.well_known
        if np.count_nonzero(exact) >= MIN_CURVE_POINTS:
            costs[TIME_PER_QUERY] = np.where(exact, np.log(seen.concurrency / x), np.nan)
        for resource in seen.resources:
            u = resource.relative_use
            follows = (u > MIN_UTILISATION) & (u < FULL_UTILISATION) & (not resource.is_setting)
            costs[resource.name] = np.where(follows, np.log(u / x), np.nan)
    return {
        name: cost for name, cost in costs.items() if np.isfinite(cost).sum() >= MIN_CURVE_POINTS
    }


def _clearest_change(costs: dict[str, Array], seen: Observations) -> Change | None:
    """Find the latest step of each cost, and take the most significant of these.

    What a query takes is a curve of the concurrency, where that is exact: past the peak it has two
    values at a throughput. Time and concurrency share their noise, which at steps of the load looks
    like one of the time: it must show over the throughput too.
    """
    x, n = seen.throughput, seen.concurrency
    found = {name: _step(name, cost, x) for name, cost in costs.items()}
    if not seen.n_variance.any():
        found = {name: step and _step(name, costs[name], n) for name, step in found.items()}
    steps = [step for step in found.values() if step]
    return max(steps, key=lambda step: step[0])[1] if steps else None


def _step(name: str, cost: Array, load: Array) -> tuple[float, Change] | None:
    """Fit cost = curve(load) + steps over time; the latest step that is beyond doubt, if any.

    Steps are added one by one where they explain most, then all are fitted together.
    """
    rows = np.flatnonzero(np.isfinite(cost))
    side = max(MIN_SIDE_INTERVALS, int(EPISODE_SHARE * len(cost)))
    if len(rows) < max(MIN_CURVE_POINTS, 2 * side):
        return None
    y = cost[rows] - median(cost[rows])
    limit = FAR_DEVIATIONS * mad(y) + ROUNDING
    y = np.clip(y, -limit, limit)
    spread = np.linspace(side, len(rows) - side, PERIODS).astype(int)
    places = np.array(sorted(set(spread.tolist())))  # np.unique would load numpy.ma, 2 MiB
    steps = _Steps.at(places, _curve(load[rows]), y)
    chosen = steps.best(side)
    sizes, errors = steps.fitted(chosen)
    if np.abs(sizes).max() <= MIN_STEP:
        return None
    levels, residuals = steps.left(chosen, sizes)
    errors *= _long_run_deviation(residuals)
    begins = places[chosen].tolist()
    for i in np.argsort(begins)[::-1]:
        size, place = float(sizes[i]), begins[i]
        sure = abs(size) > max(MIN_STEP, MIN_STEP_Z * float(errors[i]))
        if sure and _holds(levels, place, begins, size, side):
            ratio = float(np.exp(size))
            return abs(size) / float(errors[i]), Change(int(rows[place]), name, ratio)
    return None


class _Steps(NamedTuple):
    """Steps of y at several places, each 1 from its place on, less what a basis has of it.

    Of products with such a step sums from its place on remain. So all that is asked of the steps is
    computed from these few numbers, and not from the intervals.
    """

    places: NDArray[np.intp]
    y: Array
    basis: Array
    """Orthonormal columns, shape (intervals, columns)."""
    of_basis: Array
    """The basis' products with y, shape (columns,)."""
    sums: Array
    """The basis' sums from each place on, shape (places, columns)."""
    products: Array
    """Of the steps with y, shape (places,)."""
    gram: Array
    """Of the steps with each other, shape (places, places)."""

    @classmethod
    def at(cls, places: NDArray[np.intp], basis: Array, y: Array) -> Self:
        """Compute the products of the steps at these places, ascending."""
        of_basis, sums = y @ basis, _sums_from(basis, places)
        products = _sums_from(y, places) - sums @ of_basis
        gram = len(y) - np.maximum.outer(places, places) - sums @ sums.T
        return cls(places, y, basis, of_basis, sums, products, gram)

    def best(self, side: int) -> list[int]:
        """Choose places greedily by what a step explains, each `side` from the others at least.

        Returns their indices. What the chosen ones have of the others is taken from them, as in the
        basis (orthogonal least squares: S. Chen, S. Billings, W. Luo 1989).
        """
        products, gram, chosen = self.products, self.gram, list[int]()
        far = np.ones(len(self.places), dtype=np.bool_)
        for _ in range(MAX_STEPS):
            squares = np.maximum(np.diag(gram), 0.0) + NEGLIGIBLE
            gains = np.where(far, np.square(products) / squares, -1.0)
            best = int(np.argmax(gains))
            if gains[best] < 0:
                break
            chosen.append(best)
            far &= np.abs(self.places - self.places[best]) >= side
            share = gram[best] / squares[best]
            products = products - share * products[best]
            gram = gram - share[:, None] * gram[best]
        return chosen

    def fitted(self, chosen: list[int]) -> tuple[Array, Array]:
        """Fit the chosen steps together: their sizes, and the errors where y's deviation is 1."""
        ridge = NEGLIGIBLE * (len(self.y) - self.places[chosen])
        inverse = np.linalg.inv(self.gram[chosen][:, chosen] + np.diag(ridge))
        return inverse @ self.products[chosen], np.sqrt(inverse.diagonal())

    def left(self, chosen: list[int], sizes: Array) -> tuple[Array, Array]:
        """Compute y less the curve, the steps fitted with it, and less the steps too."""
        levels = self.y - self.basis @ (self.of_basis - sizes @ self.sums[chosen])
        steps = np.arange(len(self.y))[:, None] >= self.places[chosen]
        return levels, levels - steps @ sizes


def _sums_from(columns: Array, places: NDArray[np.intp]) -> Array:
    """Sum each column from each place, ascending, on; shape (places, …)."""
    between = np.add.reduceat(columns, places, axis=0)
    sums: Array = np.cumsum(between[::-1], axis=0)[::-1]
    return sums


def _holds(levels: Array, place: int, chosen: list[int], size: float, side: int) -> bool:
    """Whether most of the step is in the medians of both sides too, and in the latest intervals.

    An episode moves the mean, not the median, and it ends.
    """
    before = max((c for c in chosen if c < place), default=0)
    after = min((c for c in chosen if c > place), default=len(levels))
    earlier = median(levels[before:place])
    later = (levels[place:after], levels[-(side // 2) :])
    return all((median(level) - earlier) / size > MAJORITY for level in later)


def _curve(load: Array) -> Array:
    """An orthonormal basis for what a query costs over the load X: 1, X, X², 1/X."""
    high = max(quantile(load, HIGH_QUANTILE), TINY)
    t = np.minimum(load / high, 2.0)  # pile-ups must not set the scale
    return np.linalg.qr(np.column_stack([np.ones_like(t), curve_shape(t)]))[0]


def _long_run_deviation(residuals: Array) -> float:
    """The deviation that errors of means follow: from how the means of neighbouring blocks differ.

    Their median difference, that another step in the window does not touch.
    """
    size = max(1, len(residuals) // GROUP_INTERVALS)
    blocks = residuals[: len(residuals) // size * size].reshape(-1, size).mean(axis=1)
    typical = MAD_TO_DEVIATION * median(np.abs(np.diff(blocks))) / float(np.sqrt(2))
    return max(typical * float(np.sqrt(size)), MIN_NOISE)


def _split_in_two(
    name: str, cost: Array, seen: Observations
) -> tuple[NDArray[np.bool_], TwoClusters] | None:
    """Tell two clusters apart that take turns; None when it is one."""
    rows = np.flatnonzero(np.isfinite(cost))
    excess = _excess(cost[rows], seen.throughput[rows])
    border = _border(excess)
    if border is None:
        return None
    dear = excess > border
    if np.count_nonzero(np.diff(dear)) <= MAX_SWITCHES:
        return None
    served = seen.throughput[rows] * seen.weights[rows]
    keep_dear = served[dear].sum() > served[~dear].sum()
    current = np.ones(len(seen), dtype=np.bool_)
    current[rows[dear != keep_dear]] = False
    middles = [median(excess[dear == side]) for side in (keep_dear, not keep_dear)]
    share = float(np.mean(~current))
    return current, TwoClusters(name, float(np.exp(middles[1] - middles[0])), share)


def _is_of_the_work(
    name: str, current: NDArray[np.bool_], costs: dict[str, Array], seen: Observations
) -> bool:
    """Whether two clusters are two kinds of work: what takes another time costs otherwise too.

    On a server at its end they take many times as long and cost the same: they wait. Where most of
    them wait for a processor they may cost more for that alone, with colder caches.
    """
    used = [cost for other, cost in costs.items() if other != TIME_PER_QUERY]
    if name != TIME_PER_QUERY or not used:
        return True
    served = ~seen.queued
    return any(_differ(np.where(served, cost, np.nan), current, seen.throughput) for cost in used)


def _differ(cost: Array, current: NDArray[np.bool_], x: Array) -> bool:
    """Whether both cost otherwise at like loads."""
    rows = np.flatnonzero(np.isfinite(cost))
    ours = current[rows]
    if min(np.count_nonzero(ours), np.count_nonzero(~ours)) < MIN_SIDE_INTERVALS:
        return False
    curve = CostCurve(x[rows], cost[rows], np.ones(len(rows)))
    off = curve.off(curve)
    return bool(abs(median(off[ours]) - median(off[~ours])) > MIN_STEP)


def _excess(cost: Array, x: Array) -> Array:
    """What a query costs over what it would by the busier half of the intervals."""
    busier = x >= median(x)
    line = median(cost[busier])
    excess: Array = cost - line
    return excess


def _border(values: Array) -> float | None:
    """Find the widest gap with a cluster at each side that is narrow beside it."""
    ordered = np.sort(values)
    least = max(MIN_SIDE_INTERVALS, int(EPISODE_SHARE * len(ordered)))
    if len(ordered) < 2 * least:
        return None
    gaps = np.diff(ordered)[least - 1 : len(ordered) - least]
    if len(gaps) == 0:
        return None
    place = least + int(np.argmax(gaps))
    low, high = ordered[:place], ordered[place:]
    empty = float(ordered[place] - ordered[place - 1])
    if empty < QUERY_VARIATION:
        return None
    spread = max(float(low.std()), float(high.std()), QUERY_VARIATION)
    apart = float(median(high) - median(low))
    if apart < max(FAR_DEVIATIONS * spread, np.log(MIN_CLUSTER_RATIO)) or empty < spread:
        return None
    return float(ordered[place] + ordered[place - 1]) / 2
