"""The observations of each interval: throughput, concurrency, and the use of each resource."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array, Mask
from models.capacity.resource_and_limit import Resource
from models.capacity.thinning import thin
from models.numerics import ROUNDING, quantile
from models.shared_constants import (
    HIGH_QUANTILE,
    LOW_QUANTILE,
    MAJORITY,
    NEAR_SHARE,
    SEEN_QUANTILE,
)
from models.trust import MAX_ERROR


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
    """The variance of N, threads²: 0 by Little's law, N/k for the average of k instants."""
    weights: Array = field(repr=False)
    """How many intervals each one counts as; `thinning.thin` computes them."""
    connections: Array = field(repr=False)
    """The number of the clients' open connections."""
    resources: tuple[Resource, ...] = ()
    log_counted: bool = True
    """Whether writes of the redo or binary log were counted."""
    rows_read: Array | None = field(repr=False, default=None)
    """Rows that statements read, per second, shape (intervals,); None: not known."""

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
        rows_read: ArrayLike | None = None,
    ) -> Self:
        """Check and convert the arrays; values that are not finite, or below 0, become NaN.

        Raises ValueError for arrays that are not one-dimensional and of one length, for times that
        decrease, and for a ceiling that is not above 0.
        """
        times = np.asarray(at, dtype=np.float64)
        if times.ndim != 1 or not np.isfinite(times).all() or np.any(np.diff(times) < 0):
            raise ValueError("times must be finite and must not decrease")
        if not all(np.isfinite(r.ceiling) and r.ceiling > 0 for r in resources):
            raise ValueError("the ceiling of a resource must be above 0")
        given = (throughput, concurrency, n_variance, weights, connections)
        x, n, variance, weight, opened = (_column(times, values) for values in given)
        checked = [r.with_columns_changed(lambda column: _column(times, column)) for r in resources]
        apart = _without_idle_entries_beside_others(checked, x)
        known = tuple(r.with_shared_costs(x, n, log_counted=log_counted) for r in apart)
        variance, weight = np.nan_to_num(variance), np.nan_to_num(weight)
        rows = None if rows_read is None else _column(times, rows_read)
        return cls(times, x, n, variance, weight, opened, known, log_counted, rows)

    def __len__(self) -> int:
        """Count the intervals."""
        return len(self.at)

    def thinned(self, counts: ArrayLike = 1.0) -> "Observations":
        """Return the intervals that a long window keeps, with their weights at the latest time.

        counts: how many intervals each one represents, shape (intervals,).
        """
        now = float(self.at[-1]) if len(self) else 0.0
        kept = thin(self.at, self.throughput, now, concurrency=self.concurrency, counts=counts)
        return replace(self.select(kept.indices), weights=kept.weights)

    def select(self, which: ArrayLike | slice) -> "Observations":
        """Return the intervals at indices, of a slice, or where a mask, (intervals,), is true."""
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
            tuple(
                resource.with_columns_changed(lambda column: column[rows])
                for resource in self.resources
            ),
            self.log_counted,
            None if self.rows_read is None else self.rows_read[rows],
        )

    def resource(self, name: str) -> Resource:
        """Return the resource of that name, which must be one of them."""
        return next(resource for resource in self.resources if resource.name == name)

    @cached_property
    def disturbed_by_others(self) -> Mask:
        """Where other programs used a good part of a busy resource; shape (intervals,).

        Queries also waited for those programs, so residence times say nothing about contention.
        """
        return self._for_any_resource(self._is_disturbed)

    def _is_disturbed(self, resource: Resource) -> Mask:
        """Mark where other programs use a good part of a busy resource; shape (intervals,)."""
        busy: Mask = resource.relative_use >= NEAR_SHARE
        return busy & resource.is_used_by_other_programs(self.throughput) if busy.any() else busy

    @property
    def beside_other_programs(self) -> Mask:
        """Where other programs used a good part of a resource, busy or not; shape (intervals,)."""
        return self._for_any_resource(lambda r: r.is_used_by_other_programs(self.throughput))

    def _for_any_resource(self, condition: Callable[[Resource], Mask]) -> Mask:
        """Mark where the condition holds for at least one resource; shape (intervals,)."""
        found = np.zeros(len(self), dtype=np.bool_)
        for resource in self.resources:
            found |= condition(resource)
        return found

    @property
    def queued(self) -> Mask:
        """Where most of the running statements wait for a busy resource; shape (intervals,)."""
        return self._for_any_resource(self.queued_for)

    def queued_for(self, resource: Resource) -> Mask:
        """Mark where most running statements wait for this busy resource, shape (intervals,)."""
        if resource.waiting is None:
            return np.zeros(len(self), dtype=np.bool_)
        busy = resource.utilisation >= NEAR_SHARE * resource.ceiling
        queued: Mask = busy & (resource.waiting > MAJORITY * self.concurrency)
        return queued

    def waiting_elsewhere(self, resource: Resource) -> Array:
        """Compute how many statements at least neither use this processor nor wait for it.

        Shape (intervals,). Where it is not known how many wait for it, they do so only while all of
        it is in use, and no more of them than there are connections, or ran at once on average.
        """
        count, used = resource.count or 1.0, np.minimum(resource.relative_use, 1.0)
        waiting = resource.waiting
        if waiting is None:
            most = np.fmax(self.connections, np.nanmax(self.concurrency, initial=0.0))
            waiting = used * np.maximum(most - count, 0.0)
        elsewhere: Array = self.concurrency - used * count - waiting
        return elsewhere

    def without_filled_concurrency(self) -> "Observations":
        """Return the observations with concurrency NaN where other programs filled a resource."""
        filled = self._for_any_resource(lambda r: r.filled_by_others)
        if not filled.any():
            return self
        unknown = filled & self.disturbed_by_others
        return replace(self, concurrency=np.where(unknown, np.nan, self.concurrency))

    def without_queues(self) -> "Observations":
        """Return the observations without statements that wait for a resource that counts them."""
        n = self.concurrency
        for resource in self.resources:
            if resource.waiting is not None:
                # two resources may count the same statements
                n = np.fmin(n, np.maximum(self.concurrency - resource.waiting, 0.0))
        return replace(self, concurrency=n)

    @cached_property
    def loaded(self) -> Mask:
        """Where the law can be fitted: N is half a thread or more; shape (intervals,)."""
        n, x = self.concurrency, self.throughput
        loaded: Mask = (n >= MIN_CONCURRENCY) & (n < 1 / ROUNDING)
        return loaded & (x > ROUNDING) & (x < 1 / ROUNDING)

    @cached_property
    def is_loaded_and_exact(self) -> Mask:
        """Loaded intervals whose concurrency is known well, shape (intervals,)."""
        return self.loaded & self.has_exact_concurrency

    @cached_property
    def has_exact_concurrency(self) -> Mask:
        """Where concurrency is above 0 and known well, however low; shape (intervals,)."""
        n = self.concurrency
        known: Mask = (n > 0) & (self.n_variance <= (MAX_ERROR * n) ** 2)
        return known

    @cached_property
    def uncontended_residence_time(self) -> float | None:
        """The residence time of statements that do not wait for each other (s); None: not known.

        Sampled concurrencies are averaged, because the lowest single samples are low by chance.
        """
        known = np.isfinite(self.concurrency)
        if not known.any():
            return None
        n, x = self.concurrency[known], self.throughput[known]
        sampled = self.n_variance.any() or not n.all()
        return float(np.sum(n) / np.sum(x) if sampled else quantile(n / x, LOW_QUANTILE))

    @cached_property
    def usual_connections(self) -> float | None:
        """The number of statements that can usually run at once; None: not known.

        The higher 90 % quantile of open connections and of concurrency, not their maximum: an
        overload opens more connections for a while.
        """
        known = (each[np.isfinite(each)] for each in (self.connections, self.concurrency))
        return max((quantile(each, HIGH_QUANTILE) for each in known if len(each)), default=None)

    def concurrency_at(self, x: float) -> float | None:
        """Compute the 95 % quantile of N (threads) at about throughput x (queries/s) or more."""
        near = self.loaded & (self.throughput >= (1 - MAX_ERROR) * x)
        return quantile(self.concurrency[near], SEEN_QUANTILE) if near.any() else None


MIN_CONCURRENCY = 0.5
"""The least N, threads, for the law: nearly idle intervals say nothing about contention."""


def _without_idle_entries_beside_others(resources: Sequence[Resource], x: Array) -> list[Resource]:
    """Return the resources without idle entries where other programs ran most of the time.

    These keep processors from going idle: switching from them to a query may cost as much.
    """
    counted = [r for r in resources if r.idle_entries is not None]
    beside = np.any([r.is_used_by_other_programs(x) for r in counted], axis=0)
    if np.count_nonzero(beside) <= MAJORITY * len(x):
        return list(resources)
    return [replace(r, idle_entries=None) for r in resources]


def _column(times: Array, values: ArrayLike) -> Array:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim == 0:
        column = np.broadcast_to(column, times.shape)
    if column.shape != times.shape:
        raise ValueError("every array must have one value for each interval")
    return np.where(np.isfinite(column) & (column >= 0), column, np.nan)
