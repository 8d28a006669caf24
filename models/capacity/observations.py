"""The observations of each interval: throughput, concurrency, and the use of each resource."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.capacity.limit_types import Resource
from models.capacity.sample_sizes import HIGH_QUANTILE, MAJORITY, SEEN_QUANTILE
from models.numerics import quantile
from models.usl.law import Array


@dataclass(frozen=True, eq=False)
class Observations:
    """Intervals in the order of time; every array has shape (intervals,), NaN where not known."""

    at: Array = field(repr=False)
    """The end of each interval (s), rising."""
    throughput: Array = field(repr=False)
    """X, queries/s."""
    concurrency: Array = field(repr=False)
    """N, threads."""
    n_variance: Array = field(repr=False)
    """How uncertain N is, threads²: 0 by Little's law, N/k as the average of k instants."""
    weights: Array = field(repr=False)
    """How many intervals each weighs as; `keep.thin` gives them."""
    connections: Array = field(repr=False)
    """How many of the clients' connections are open."""
    resources: tuple[Resource, ...] = ()
    log_counted: bool = True
    """Whether writes of the redo or binary log were counted."""

    @classmethod
    def of(
        cls,
        at: ArrayLike,
        throughput: ArrayLike,
        concurrency: ArrayLike,
        *,
        resources: Sequence[Resource] = (),
        n_variance: ArrayLike = 0.0,
        weights: ArrayLike = 1.0,
        connections: ArrayLike = np.nan,
        log_counted: bool = True,
    ) -> Self:
        """Check and convert; what is not finite, or below 0, becomes "not known".

        Raises ValueError for arrays that are not one-dimensional and of one length, for times that
        fall, and for a ceiling that is not above 0.
        """
        times = np.asarray(at, dtype=np.float64)
        if times.ndim != 1 or not np.isfinite(times).all() or np.any(np.diff(times) < 0):
            raise ValueError("times must be finite and rise")
        if not all(np.isfinite(r.ceiling) and r.ceiling > 0 for r in resources):
            raise ValueError("the ceiling of a resource must be above 0")
        given = (throughput, concurrency, n_variance, weights, connections)
        x, n, variance, weigh, opened = (_column(times, values) for values in given)
        checked = [r.mapped(lambda column: _column(times, column)) for r in resources]
        known = tuple(resource.with_shared_costs(x, n) for resource in checked)
        variance, weigh = np.nan_to_num(variance), np.nan_to_num(weigh)
        return cls(times, x, n, variance, weigh, opened, known, log_counted)

    def __len__(self) -> int:
        """Count the intervals."""
        return len(self.at)

    def select(self, which: ArrayLike | slice) -> "Observations":
        """Take the intervals at these indices, of this slice, or where this mask holds."""
        rows = which if isinstance(which, slice) else np.asarray(which)
        if not isinstance(rows, slice) and rows.dtype == np.bool_ and rows.all():
            return self
        return Observations(
            self.at[rows],
            self.throughput[rows],
            self.concurrency[rows],
            self.n_variance[rows],
            self.weights[rows],
            self.connections[rows],
            tuple(resource.mapped(lambda column: column[rows]) for resource in self.resources),
            self.log_counted,
        )

    def resource(self, name: str) -> Resource:
        """The resource of that name, which is one of them."""
        return next(resource for resource in self.resources if resource.name == name)

    @property
    def disturbed(self) -> NDArray[np.bool_]:
        """Where a resource was busy and others had a good part of it; shape (intervals,).

        Queries also waited for those others, so their residence times say nothing of contention.
        """
        return self._for_any_resource(self._is_disturbed)

    def _is_disturbed(self, resource: Resource) -> NDArray[np.bool_]:
        """Where others use more of a busy resource than follows the throughput."""
        busy: NDArray[np.bool_] = resource.relative_use >= MIN_PEAK_UTILISATION
        return busy & resource.used_by_other_programs(self.throughput) if busy.any() else busy

    @property
    def beside_other_programs(self) -> NDArray[np.bool_]:
        """Where others used more of a resource than follows the throughput; shape (intervals,)."""
        return self._for_any_resource(lambda r: r.used_by_other_programs(self.throughput))

    def _for_any_resource(
        self, condition: Callable[[Resource], NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Where the condition holds for one resource at least; shape (intervals,)."""
        found = np.zeros(len(self), dtype=np.bool_)
        for resource in self.resources:
            found |= condition(resource)
        return found

    @property
    def queued(self) -> NDArray[np.bool_]:
        """Where most of the statements at once wait for a busy resource; shape (intervals,)."""
        return self._for_any_resource(self.queued_for)

    def queued_for(self, resource: Resource) -> NDArray[np.bool_]:
        """Where this busy resource keeps most of the statements waiting; shape (intervals,)."""
        if resource.waiting is None:
            return np.zeros(len(self), dtype=np.bool_)
        busy = resource.utilisation >= MIN_PEAK_UTILISATION * resource.ceiling
        queued: NDArray[np.bool_] = busy & (resource.waiting > MAJORITY * self.concurrency)
        return queued

    def without_filled(self) -> "Observations":
        """The same, concurrency not known where others filled a resource."""
        filled = self._for_any_resource(lambda r: r.filled_by_others)
        if not filled.any():
            return self
        unknown = filled & self.disturbed
        return replace(self, concurrency=np.where(unknown, np.nan, self.concurrency))

    def without_queues(self) -> "Observations":
        """The same, without the statements that wait for a resource, where they are counted."""
        n = self.concurrency
        for resource in self.resources:
            if resource.waiting is not None:
                # two resources may count the same ones
                n = np.fmin(n, np.maximum(self.concurrency - resource.waiting, 0.0))
        return replace(self, concurrency=n)

    @property
    def loaded(self) -> NDArray[np.bool_]:
        """Where the law may be fitted: N of half a thread at least, shape (intervals,)."""
        n, x = self.concurrency, self.throughput
        loaded: NDArray[np.bool_] = (n >= MIN_CONCURRENCY) & (n < MAX_MAGNITUDE)
        return loaded & (x > 1 / MAX_MAGNITUDE) & (x < MAX_MAGNITUDE)

    @property
    def well_known(self) -> NDArray[np.bool_]:
        """Loaded intervals whose concurrency is known well, shape (intervals,)."""
        return self.loaded & self.measured

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Where concurrency is above 0 and known well, however low; shape (intervals,)."""
        n = self.concurrency
        known: NDArray[np.bool_] = (n > 0) & (self.n_variance <= (MAX_CONCURRENCY_ERROR * n) ** 2)
        return known

    @property
    def uncontended_time(self) -> float | None:
        """The residence time of statements that do not wait for each other (s), where N is known.

        Sampled concurrencies are averaged: of single ones the least are chance.
        """
        known = np.isfinite(self.concurrency)
        if not known.any():
            return None
        n, x = self.concurrency[known], self.throughput[known]
        sampled = self.n_variance.any() or not n.all()
        return float(np.sum(n) / np.sum(x) if sampled else quantile(n / x, UNCONTENDED_QUANTILE))

    @property
    def clients(self) -> float | None:
        """How many statements may usually run at once: open connections, or as many as often did.

        An overload opens more of them for a while.
        """
        known = (each[np.isfinite(each)] for each in (self.connections, self.concurrency))
        return max((quantile(each, HIGH_QUANTILE) for each in known if len(each)), default=None)

    def concurrency_at(self, x: float) -> float | None:
        """Find the highest N (threads) of the intervals with about that throughput or more."""
        near = self.loaded & (self.throughput >= SAME_LOAD_SHARE * x)
        return quantile(self.concurrency[near], SEEN_QUANTILE) if near.any() else None


SAME_LOAD_SHARE = 0.95
"""From this share of a throughput on, a load is about the same."""
MAX_CONCURRENCY_ERROR = 0.1
"""Concurrencies with a larger relative error are not well known."""
UNCONTENDED_QUANTILE = 0.2
"""The quantile of the residence times that counts as that of statements that do not wait."""
MAX_MAGNITUDE = 1e120
"""Beyond this, and below its inverse, powers of a number have no place in a float."""
MIN_PEAK_UTILISATION = 0.8
"""The resource that ends the growth is used this much at the peak already. One that is full beyond
the peak but not at it was filled by other, or more expensive, queries: a report, a backup."""
MIN_CONCURRENCY = 0.5
"""Nearly idle intervals say nothing about threads that disturb each other."""


def _column(times: Array, values: ArrayLike) -> Array:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim == 0:
        column = np.broadcast_to(column, times.shape)
    if column.shape != times.shape:
        raise ValueError("every array must have one value for each interval")
    return np.where(np.isfinite(column) & (column >= 0), column, np.nan)
