"""Detection of changes of the mix, and of two workloads that alternate in one window.

Per query, a workload takes a certain time and costs a certain share of each resource at a given
load. A step of these over time is a change: the intervals before it describe another workload. Two
separate levels that alternate are two workloads: day traffic and night jobs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.capacity.cost_curve import MIN_UTILISATION, CostCurve, curve_design
from models.capacity.heavier_mix import find_heavier_mix
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import FULL_UTILISATION, Resource
from models.numerics import NEGLIGIBLE, ROUNDING, TINY, median, quantile
from models.robust_regression import MAD_TO_DEVIATION, medians
from models.shared_constants import (
    EPISODE_SHARE,
    FAR_RATIO,
    GROUP_INTERVALS,
    HIGH_QUANTILE,
    MAJORITY,
    MIN_CURVE_POINTS,
    MIN_NOISE,
    PERIODS,
    QUERY_VARIATION,
    TOLERATED_CHANGE,
)

TIME_PER_QUERY = "time_per_query"
ROWS_PER_QUERY = "rows_per_query"
MIN_SIDE_INTERVALS = 10
"""The least number of intervals on each side of a change; fewer may be an episode: a backup."""
MIN_STEP_Z = 8.0
"""The number of standard errors that a change must exceed."""
MAX_STEPS = 3
"""The greatest number of changes in one window that are distinguished."""
FAR_DEVIATIONS = 4.0
"""The number of deviations beyond which costs are cut off, and by which the medians of two clusters
differ at least."""
MAX_SWITCHES = 2
"""Two workloads alternate when they change places more often than this."""


@dataclass(frozen=True)
class CostChange:
    """A step in the time or cost of a query; older intervals are left out."""

    index: int
    """The first interval of the present workload."""
    quantity: str
    """A resource's name, or "time_per_query"."""
    ratio: float
    """After over before."""


@dataclass(frozen=True)
class TwoClusters:
    """Two workloads that alternate; the one with fewer queries is left out."""

    quantity: str
    ratio: float
    """The cost of a query in the cluster left out over that in the one kept."""
    share: float
    """The share of the intervals that were left out; 0 of a heavier mix that is the present one."""


@dataclass(frozen=True, eq=False)
class Regimes:
    """The intervals of the workload to assess, and why others were left out."""

    current: Mask = field(repr=False)
    """Shape (intervals,)."""
    change: CostChange | None = None
    clusters: TwoClusters | None = None


def find_regimes(seen: Observations) -> Regimes:
    """Find the intervals that belong to the present workload."""
    heavier = find_heavier_mix(seen)
    if heavier is None:
        return _regimes_of_usual(seen)
    if heavier.at_any_load[-MIN_SIDE_INTERVALS:].all():  # it may stay, as after a change of plans
        regimes = _regimes_of_usual(seen)
        is_explained = regimes.change is not None or regimes.clusters is not None
        lasting = TwoClusters(ROWS_PER_QUERY, heavier.ratio, 0.0)
        return regimes if is_explained else replace(regimes, clusters=lasting)
    usual = np.flatnonzero(~heavier.intervals)
    regimes = _regimes_of_usual(seen.select(usual))
    current, change = np.zeros(len(seen), dtype=np.bool_), regimes.change
    current[usual[regimes.current]] = True
    if change is not None:
        change = replace(change, index=int(usual[change.index]))
    share = float(np.mean(heavier.intervals))
    clusters = regimes.clusters or TwoClusters(ROWS_PER_QUERY, heavier.ratio, share)
    return Regimes(current, change, clusters)


def _regimes_of_usual(seen: Observations) -> Regimes:
    """Find them where no heavier mix filled a resource."""
    current = np.ones(len(seen), dtype=np.bool_)
    if len(seen) < MIN_CURVE_POINTS:
        return Regimes(current)
    costs = _ln_costs(seen, lambda resource: resource.relative_use)
    for name, cost in costs.items():
        split = _separate_clusters(name, cost, seen)
        if split is not None and _are_two_workloads(name, split[0], costs, seen):
            return Regimes(split[0], clusters=split[1])
    # what other programs use is no cost of a query, and may change at any time
    own_costs = _ln_costs(seen, lambda resource: resource.relative_own_use)
    change = _most_significant_change(own_costs, seen)
    if change is not None:
        current[: change.index] = False
    return Regimes(current, change=change)


def _ln_costs(seen: Observations, use: Callable[[Resource], Array]) -> dict[str, Array]:
    """Compute the logarithms of the time of a query, N/X, and of its cost in each resource, U/X.

    use returns U, a share of the ceiling, shape (intervals,). A full resource shows no cost.
    """
    used = [resource for resource in seen.resources if not resource.has_configured_limit]
    spent = np.array([seen.concurrency, *(use(resource) for resource in used)])
    whole = np.array([seen.concurrency, *(resource.relative_use for resource in used)])
    follows = (spent > MIN_UTILISATION) & (whole < FULL_UTILISATION)
    follows[0] = seen.is_loaded_and_exact
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = np.where(follows, np.log(spent / seen.throughput), np.nan)
    names = (TIME_PER_QUERY, *(resource.name for resource in used))
    enough = np.isfinite(costs).sum(axis=1) >= MIN_CURVE_POINTS
    return {name: cost for name, cost, known in zip(names, costs, enough, strict=True) if known}


def _most_significant_change(costs: dict[str, Array], seen: Observations) -> CostChange | None:
    """Find the latest step of each cost, and return the most significant of these.

    A cost is a curve of the concurrency, where that is exact: past the peak it has two values at a
    throughput. Time and concurrency share their noise, which at steps of the load looks like a step
    of the time, so that a step must show over the throughput too.
    """
    steps = _latest_steps(costs, seen.throughput)
    if not seen.n_variance.any():
        steps = _latest_steps({name: costs[name] for name in steps}, seen.concurrency)
    return max(steps.values(), key=lambda step: step[0])[1] if steps else None


def _latest_steps(costs: dict[str, Array], load: Array) -> dict[str, tuple[float, CostChange]]:
    """Find the latest certain step of each cost over time, and its z; without costs that have none.

    All costs are fitted together because for a single one numpy's calls take longer than the
    arithmetic.
    """
    side = max(MIN_SIDE_INTERVALS, int(EPISODE_SHARE * len(load)))
    least = max(MIN_CURVE_POINTS, 2 * side)
    known = {
        name: np.flatnonzero(np.isfinite(cost) & np.isfinite(load)) for name, cost in costs.items()
    }
    rows = {name: of_cost for name, of_cost in known.items() if len(of_cost) >= least}
    if not rows:
        return {}
    y, design = np.zeros((len(rows), len(load))), np.zeros((len(rows), len(load), 4))
    for i, (name, of_cost) in enumerate(rows.items()):
        y[i, : len(of_cost)] = _without_extremes(costs[name][of_cost])
        design[i, : len(of_cost)] = _cost_design(load[of_cost])
    counts = np.array([len(of_cost) for of_cost in rows.values()])
    found = _PossibleSteps.of(y, np.linalg.qr(design)[0], counts, side).latest_certain(side)
    names, steps = list(rows), dict[str, tuple[float, CostChange]]()
    for i, (z, place, size) in found.items():
        index = int(rows[names[i]][place])
        steps[names[i]] = z, CostChange(index, names[i], float(np.exp(size)))
    return steps


class _Step(NamedTuple):
    """A certain step of a cost."""

    z: float
    """By how many standard errors it differs from 0."""
    place: int
    """How many of the known intervals are before it."""
    size: float
    """Of ln cost."""


class _PossibleSteps(NamedTuple):
    """Possible steps of costs at several places, each 1 from its place on, orthogonal to a basis.

    A product with such a step is a sum from its place on. So everything about the steps is computed
    from these few numbers, and not from the intervals.
    """

    counts: NDArray[np.intp]
    """How many intervals each cost is known in, shape (costs,): they come first."""
    places: NDArray[np.intp]
    """Shape (costs, places), ascending."""
    y: Array
    """The costs without extremes, shape (costs, intervals); 0 beyond the known intervals."""
    basis: Array
    """Orthonormal columns, shape (costs, intervals, columns); likewise."""
    of_basis: Array
    """The products of the basis with y, shape (costs, columns)."""
    sums: Array
    """The sums of the basis from each place on, shape (costs, places, columns)."""
    products: Array
    """The products of the steps with y, shape (costs, places)."""
    gram: Array
    """The products of the steps with each other, shape (costs, places, places)."""

    @classmethod
    def of(cls, y: Array, basis: Array, counts: NDArray[np.intp], side: int) -> Self:
        """Compute the products of the steps that have at least `side` intervals on each side."""
        places = np.linspace(side, counts - side, PERIODS, axis=1).astype(np.intp)
        of_basis, sums = (y[:, None] @ basis)[:, 0], _sums_from(basis, places)
        products = _sums_from(y[:, :, None], places) - sums @ of_basis[:, :, None]
        later = np.maximum(places[:, :, None], places[:, None])
        gram = counts[:, None, None] - later - sums @ sums.transpose(0, 2, 1)
        return cls(counts, places, y, basis, of_basis, sums, products[:, :, 0], gram)

    def latest_certain(self, side: int) -> dict[int, _Step]:
        """Find the latest certain step of each cost that has one, by the index of the cost.

        Steps are added one by one where they explain most, then all are fitted together.
        """
        chosen = self.choose_greedily(side)
        sizes, errors = self.fit(chosen)
        found = {}
        for i in np.flatnonzero(np.abs(sizes).max(axis=1) > TOLERATED_CHANGE).tolist():
            of_cost = chosen[i, chosen[i] >= 0]
            size, begins = sizes[i, : len(of_cost)], self.places[i, of_cost].tolist()
            levels, residuals = self.without_curve(i, of_cost, size)
            z = np.abs(size) / (errors[i, : len(of_cost)] * _long_run_deviation(residuals))
            is_certain = (np.abs(size) > TOLERATED_CHANGE) & (z > MIN_STEP_Z)
            for k in np.argsort(begins)[::-1]:
                place, by = begins[k], float(size[k])
                if is_certain[k] and _is_lasting_step(levels, place, begins, by, side):
                    found[i] = _Step(float(z[k]), place, by)
                    break
        return found

    def choose_greedily(self, side: int) -> NDArray[np.intp]:
        """Choose places greedily by what a step explains, at least `side` from each other.

        Returns their indices, shape (costs, steps), −1 where none is left. The other steps are made
        orthogonal to the chosen ones, as to the basis (orthogonal least squares: S. Chen, S.
        Billings, W. Luo 1989).
        """
        products, gram, each = self.products, self.gram, np.arange(len(self.y))
        far = np.ones(products.shape, dtype=np.bool_)
        chosen = []
        for _ in range(MAX_STEPS):
            squares = np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0) + NEGLIGIBLE
            best = np.argmax(np.where(far, np.square(products) / squares, -1.0), axis=1)
            chosen.append(np.where(far[each, best], best, -1))
            far &= np.abs(self.places - self.places[each, best, None]) >= side
            row = gram[each, best]
            share = row / squares[each, best, None]
            products = products - share * products[each, best, None]
            gram = gram - share[:, :, None] * row[:, None]
        return np.array(chosen).T

    def fit(self, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        """Fit the chosen steps together: their sizes, and the errors where y's deviation is 1.

        Both have the shape of chosen, (costs, steps).
        """
        each, there = np.arange(len(self.y))[:, None], chosen >= 0
        after = self.counts[:, None] - self.places[each, chosen]
        gram = self.gram[each[:, :, None], chosen[:, :, None], chosen[:, None]]
        gram *= there[:, :, None] & there[:, None]
        ridge = np.where(there, NEGLIGIBLE * after, 1.0)
        inverse = np.linalg.inv(gram + ridge[:, :, None] * np.eye(MAX_STEPS))
        products = np.where(there, self.products[each, chosen], 0.0)
        sizes = np.sum(inverse * products[:, None], axis=2)
        return sizes, np.sqrt(inverse.diagonal(axis1=1, axis2=2))

    def without_curve(
        self, which: int, chosen: NDArray[np.intp], sizes: Array
    ) -> tuple[Array, Array]:
        """Compute y of one cost less the curve that is fitted with the steps, and less these too.

        chosen and sizes have shape (steps,), the results (known intervals,).
        """
        known = slice(self.counts[which])
        y, basis = self.y[which, known], self.basis[which, known]
        levels = y - basis @ (self.of_basis[which] - sizes @ self.sums[which, chosen])
        steps = np.arange(len(y))[:, None] >= self.places[which, chosen]
        return levels, levels - steps @ sizes


def _without_extremes(cost: Array) -> Array:
    """Subtract the median of a cost, and cut off the extremes; shape (known intervals,)."""
    y = cost - median(cost)
    limit = FAR_DEVIATIONS * MAD_TO_DEVIATION * median(np.abs(y)) + ROUNDING
    return np.minimum(np.maximum(y, -limit), limit)


def _sums_from(columns: Array, places: NDArray[np.intp]) -> Array:
    """Sum columns, (costs, intervals, k), from each place on; shape (costs, places, k)."""
    sums: Array = np.cumsum(columns[:, ::-1], axis=1)[:, ::-1]
    return sums[np.arange(len(places))[:, None], places]


def _is_lasting_step(levels: Array, place: int, chosen: list[int], size: float, side: int) -> bool:
    """Return whether most of a step is in the medians of both sides and of the latest intervals.

    An episode moves the mean, not the median, and it ends.
    """
    before = max((c for c in chosen if c < place), default=0)
    after = min((c for c in chosen if c > place), default=len(levels))
    earlier = median(levels[before:place])
    later = (levels[place:after], levels[-(side // 2) :])
    return all((median(level) - earlier) / size > MAJORITY for level in later)


def _cost_design(load: Array) -> Array:
    """Return columns for a query's cost over the load X, (known intervals,): 1, X, X², 1/X."""
    high = max(quantile(load, HIGH_QUANTILE), TINY)
    return curve_design(np.minimum(load / high, 2.0))  # pile-ups must not set the scale


def _long_run_deviation(residuals: Array) -> float:
    """Estimate the deviation that errors of means follow, from the sums of all neighbours.

    They overlap and run over both ends, so that one interval more changes them little (the
    autocovariances weighted as by W. Newey, K. West, *Econometrica* 55, 1987).
    """
    size = max(1, len(residuals) // GROUP_INTERVALS)
    sums = np.convolve(residuals, np.ones(size))
    return max(float(np.sqrt(sums @ sums / (size * len(residuals)))), MIN_NOISE)


def _separate_clusters(
    name: str, cost: Array, seen: Observations
) -> tuple[Mask, TwoClusters] | None:
    """Separate two clusters that alternate; None where there is one, or they do not."""
    rows = np.flatnonzero(np.isfinite(cost))
    cost = cost[rows]
    border = _cluster_border(cost)
    if border is None:
        return None
    is_expensive = cost > border
    if np.count_nonzero(np.diff(is_expensive)) <= MAX_SWITCHES:
        return None
    served = seen.throughput[rows] * seen.weights[rows]
    keep_expensive = served[is_expensive].sum() > served[~is_expensive].sum()
    current = np.ones(len(seen), dtype=np.bool_)
    current[rows[is_expensive != keep_expensive]] = False
    middles = [median(cost[is_expensive == side]) for side in (keep_expensive, not keep_expensive)]
    share = float(np.mean(~current))
    return current, TwoClusters(name, float(np.exp(middles[1] - middles[0])), share)


def _are_two_workloads(
    name: str, current: Mask, costs: dict[str, Array], seen: Observations
) -> bool:
    """Return whether two clusters are two workloads: if their times differ, their costs do too.

    On a saturated server queries take many times as long and cost the same: they wait. Where most
    of them wait for a processor they may cost more for that alone, with colder caches. Commits that
    wait together share a write of the log, so that of a disk they cost less.
    """
    shared = {resource.name for resource in seen.resources if resource.is_busy_time}

    def is_shared(one: str) -> bool:
        return one in shared and _is_less_where_slower(costs[one], current, seen)

    used = [other for other in costs if other != TIME_PER_QUERY]
    if name != TIME_PER_QUERY or not used:
        return not is_shared(name)
    served = ~seen.queued
    return any(
        _costs_differ(np.where(served, costs[other], np.nan), current, seen.throughput)
        and not is_shared(other)
        for other in used
    )


def _is_less_where_slower(cost: Array, current: Mask, seen: Observations) -> bool:
    """Return whether of two clusters queries cost less in the one where they take longer."""
    time = seen.concurrency / seen.throughput
    time_difference, cost_difference = (
        medians(np.where(current, values, np.nan)) - medians(np.where(current, np.nan, values))
        for values in (time, cost)
    )
    return bool(time_difference * cost_difference < 0)


def _costs_differ(cost: Array, current: Mask, x: Array) -> bool:
    """Return whether the costs of both clusters differ at similar loads."""
    rows = np.flatnonzero(np.isfinite(cost))
    is_current = current[rows]
    if min(np.count_nonzero(is_current), np.count_nonzero(~is_current)) < MIN_SIDE_INTERVALS:
        return False
    curve = CostCurve(x[rows], cost[rows], np.ones(len(rows)))
    off = curve.residuals
    return bool(abs(median(off[is_current]) - median(off[~is_current])) > TOLERATED_CHANGE)


def _cluster_border(values: Array) -> float | None:
    """Find the middle of the widest gap between two clusters that are narrow beside it, if any."""
    ordered = np.sort(values)
    least = max(MIN_SIDE_INTERVALS, int(EPISODE_SHARE * len(ordered)))
    if len(ordered) < 2 * least:
        return None
    gaps = np.diff(ordered)[least - 1 : len(ordered) - least]
    if len(gaps) == 0:
        return None
    place = least + int(np.argmax(gaps))
    low, high = ordered[:place], ordered[place:]
    gap = float(ordered[place] - ordered[place - 1])
    if gap < QUERY_VARIATION or (distance := median(high) - median(low)) < log(FAR_RATIO):
        return None
    spread = max(float(low.std()), float(high.std()), QUERY_VARIATION)
    if distance < FAR_DEVIATIONS * spread or gap < spread:
        return None
    return float(ordered[place] + ordered[place - 1]) / 2
