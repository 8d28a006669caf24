"""Time series of query classes: the input of every model that divides a resource."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.attribution.wait_functions import waits_by_text

SIZES = ("rows_examined", "rows_sent", "rows_affected", "sort_rows", "tmp_tables")
"""Quantities, besides the call itself, with which the work of a call grows."""
FOLDS = 4
"""The least number of parts in which intervals are compared with each other, or predicted."""
OTHER, AGENT = "other", "agent"
"""Columns of several classes: those without a column of their own, and the agent's statements."""


@dataclass(frozen=True)
class ClassIntervals:
    """T intervals of K query classes. Matrices have shape (T, K); None, not zeros, if not known."""

    names: tuple[str, ...]
    seconds: Array
    """Length of each interval, s, shape (T,)."""
    statement_time: Array
    """Time of statements that ended, s; in the wide form whatever unit the columns have."""
    count: Array | None = None
    lock_time: Array | None = None
    """The part of it that waited for locks, s."""
    inflight_delta: Array | None = None
    """Change of the elapsed time of statements that still run, s; negative when they end."""
    sizes: tuple[tuple[str, Array], ...] = ()
    """Rows and temporary tables, those of SIZES that are known."""
    cpu: Array | None = None
    """CPU seconds that the server itself accounts for (SUM_CPU_TIME)."""
    on_disk: Array | None = None
    """How often threads of statements were seen to wait for a disk; None: not known."""
    ready: Array | None = None
    """How often they were seen to run or to wait for a processor."""
    texts: tuple[str | None, ...] | None = None
    """Digest texts; None when none are known."""

    def __post_init__(self) -> None:
        """Raise ValueError if shapes differ, or if a value is negative or not finite."""
        shape = (len(self.seconds), len(self.names))
        for name, matrix in [*self._matrices(), *self.sizes]:
            if matrix.shape != shape:
                raise ValueError(f"{name} has shape {matrix.shape}, expected {shape}")
            if not np.isfinite(matrix).all():
                raise ValueError(f"{name} must be finite")
            if name != "inflight_delta" and (matrix < 0).any():
                raise ValueError(f"{name} must not be negative")
        if self.texts is not None and len(self.texts) != len(self.names):
            raise ValueError("texts must have one entry per class, or be None")

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.seconds)

    @cached_property
    def work_time(self) -> Array:
        """Statement time, that of statements in flight included, less lock time, s, (T, K)."""
        work = self.statement_time
        if self.lock_time is not None:
            work = work - self.lock_time
        if self.inflight_delta is not None:
            work = work + self.inflight_delta
        return np.maximum(work, 0.0)

    @cached_property
    def calls_wait_function(self) -> Mask:
        """Which classes call a wait function by their texts, shape (K,)."""
        return waits_by_text(self.texts, len(self.names))

    @cached_property
    def uses(self) -> Array:
        """Each class's calls and sizes over all intervals, shape (K, F); blocks share them."""
        return np.column_stack([table.sum(axis=0) for table in self._calls_and_sizes()])

    @cached_property
    def features(self) -> Array:
        """Each interval's calls and sizes, summed over classes, shape (T, F)."""
        return np.column_stack([table.sum(axis=1) for table in self._calls_and_sizes()])

    def _calls_and_sizes(self) -> list[Array]:
        """Return the counts of calls, if known, and the known sizes, F of shape (T, K)."""
        calls = [] if self.count is None else [self.count]
        return [*calls, *(table for _, table in self.sizes)]

    def at(self, intervals: Sequence[int] | NDArray[np.int64] | slice) -> "ClassIntervals":
        """Return only these intervals, by index, shape (t,), or slice."""
        return self._mapped(lambda matrix: matrix[intervals], self.seconds[intervals], self.names)

    def arranged(self, names: Sequence[str]) -> "ClassIntervals":
        """Return these classes in this order; the values of a class that is not there are 0."""
        place = {name: i for i, name in enumerate(self.names)}
        found = [(to, place[name]) for to, name in enumerate(names) if name in place]
        to, source = ([pair[i] for pair in found] for i in (0, 1))

        def arrange(matrix: Array) -> Array:
            result = np.zeros((len(matrix), len(names)))
            result[:, to] = matrix[:, source]
            return result

        texts = None
        if self.texts is not None:
            known = dict(zip(self.names, self.texts, strict=True))
            texts = tuple(known.get(name) for name in names)
        return self._mapped(arrange, self.seconds, tuple(names), texts)

    def _matrices(self) -> list[tuple[str, Array]]:
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, v) for name, v in known if isinstance(v, np.ndarray) and name != "seconds"]

    def _mapped(
        self,
        change: Callable[[Array], Array],
        seconds: Array,
        names: tuple[str, ...],
        texts: tuple[str | None, ...] | None = None,
    ) -> "ClassIntervals":
        """Return intervals whose matrices are changed by a function, with these names and texts."""
        matrices = {name: change(matrix) for name, matrix in self._matrices()}
        sizes = tuple((name, change(matrix)) for name, matrix in self.sizes)
        return ClassIntervals(
            names=names,
            seconds=seconds,
            sizes=sizes,
            texts=texts if texts is not None else self.texts,
            **matrices,
        )
