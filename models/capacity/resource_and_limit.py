"""The types of a resource, and of the throughput at which it is full."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from models.arrays import Array, Mask
from models.capacity.cpu_wakeups import SHORT_QUERY_SECONDS
from models.capacity.shared_cost import SharedCost
from models.numerics import QUANTILES, median, quantile, quantiles
from models.reason_enum import ReasonEnum
from models.shared_constants import (
    CLEAR_RATIO,
    LOW_QUANTILE,
    MAJORITY,
    MIN_LOAD_RATIO,
    MIN_MEETING_CONCURRENCY,
    MIN_POINTS,
    SIGNIFICANT_Z,
)
from models.trust import FULL_LOAD, Trust
from models.usl.peak_posterior import CredibleInterval


class LimitReason(ReasonEnum):
    """Why a limit is not trusted, or a remark on it."""

    FEW_POINTS = "few_points", "fewer than six intervals have a known utilisation below its ceiling"
    NO_DEMAND = "no_demand", "the utilisation does not grow with the throughput"
    LITTLE_USED = "little_used", "the resource was used too little to estimate its limit"
    NOT_A_LIMIT = "not_a_limit", "throughput kept growing while the resource counted as full"
    STILL_FILLING = "still_filling", "its fill level rises at any load and drops when it is emptied"
    ALREADY_FULL = "already_full", "the resource was (nearly) full, so the limit was measured"
    DEMAND_GROWS = "demand_grows", "the demand per query grows with the load"
    WIDE_INTERVAL = "wide_interval", "the limit's interval is too wide"
    FILLED_BY_OTHERS = "filled_by_others", "other processes fill the resource"
    SEVERAL_AT_ONCE = (
        "several_at_once",
        "it serves several requests at once: busy time overstates its use",
    )
    CEILING_ASSUMED = (
        "ceiling_assumed",
        "the share of the resource that the counter misses is assumed",
    )


MAX_LIMIT_RATIO = 12.0
"""A limit whose interval, up to the end of its table, spans a greater ratio is ignored: it says too
little about where contention is to be expected. The limit is sought as far to either side of that
of a straight line."""
FULL_UTILISATION = 0.97
"""A resource this near its ceiling is full: its utilisation can no longer follow the load."""
OTHER_PROGRAMS_SHARE = 0.15
"""Use by others beyond that, as a share of the ceiling, counts as that of other programs."""


COLUMNS = (
    "utilisation",
    "own",
    "clock",
    "idle_entries",
    "waiting",
    "log_writes",
    "processors",
    "short_query_concurrency",
)
"""The fields of a resource that have a value for each interval."""


@dataclass(frozen=True, eq=False)
class Resource:
    """How busy a resource was in each interval, as a share of its capacity."""

    name: str
    utilisation: Array = field(repr=False)
    """Shape (intervals,), NaN where not known."""
    ceiling: float = 1.0
    """The utilisation at which the resource is full."""
    ceiling_deviation: float = 0.0
    """The standard deviation of ln ceiling; 0: it is known."""
    is_ceiling_assumed: bool = False
    """Whether the ceiling was measured on other servers only."""
    has_configured_limit: bool = False
    """Whether its limit is configured: it says nothing about where contention ends the growth."""
    is_busy_time: bool = False
    """Whether it is busy time: one request at a time makes it as busy as many at once."""
    is_fill_level: bool = False
    """Whether it measures what has come in and not yet gone out, as the fill level of a log."""
    counts_waits: bool = False
    """Whether it also counts statements that wait elsewhere: it may seem full long before it is."""
    own: Array | None = field(repr=False, default=None)
    """The part of the utilisation that is the server's own, shape (intervals,); None: not known."""
    is_of_statements: bool = False
    """Whether `own` is the CPU time of statements, which does not include waking a processor."""
    clock: Array | None = field(repr=False, default=None)
    """Its clock as a share of the fastest, shape (intervals,); None: not known."""
    idle_entries: Array | None = field(repr=False, default=None)
    """How often one of its processors went idle, per second; shape (intervals,); None: unknown."""
    log_writes: Array | None = field(repr=False, default=None)
    """How often the server wrote its log, per second; shape (intervals,); None: not known."""
    waiting: Array | None = field(repr=False, default=None)
    """How many of the server's threads waited for it, shape (intervals,); None: not known."""
    processors: Array | None = field(repr=False, default=None)
    """The number of processors, shape (intervals,); None: no processor, or not known."""
    short_query_concurrency: Array | None = field(repr=False, default=None)
    """Short statements at once for each processor where idle entries are not counted, shape
    (intervals,), NaN where not known; `Observations.of` computes it from N."""
    wakeups: SharedCost | None = field(repr=False, default=None)
    """The share of queries that found it busy; `Observations.of` computes it from idle entries."""
    log_sharing: SharedCost | None = field(repr=False, default=None)
    """The share of queries that needed no log write of their own, likewise from log writes."""
    may_wait_for_log: bool = False
    """Whether statements wait for something else even at low loads, possibly for log writes that
    were not counted; `Observations.of` compares their residence time with their use of it."""
    others_per_query: float | None = None
    """The use by others per query, as by clients on the same host: a share of the ceiling for one
    query/s, NaN where unknown; `Observations.of` estimates it from the whole window."""

    @cached_property
    def count(self) -> float | None:
        """The median number of processors; None: no processor, or not known."""
        if self.processors is None or not np.isfinite(self.processors).any():
            return None
        return median(self.processors[np.isfinite(self.processors)])

    @property
    def is_waiting_counted(self) -> Mask:
        """Where the threads that wait for it are counted, shape (intervals,)."""
        if self.waiting is None:
            return np.zeros(len(self.utilisation), dtype=np.bool_)
        return np.isfinite(self.waiting)

    @cached_property
    def full(self) -> Mask:
        """Where it is full, shape (intervals,); a processor that queries find idle is not."""
        bound = self.ceiling * np.exp(SIGNIFICANT_Z * self.ceiling_deviation)
        full: Mask = (self.utilisation >= FULL_UTILISATION * bound) & self.may_be_full
        return full

    @property
    def may_be_full(self) -> Mask:
        """Where queries do not find it idle, however busy it was; shape (intervals,)."""
        allows = np.ones(len(self.utilisation), dtype=np.bool_)
        if self.wakeups is not None:
            allows = ~(self.wakeups.saved < FULL_LOAD)
        elif self.short_query_concurrency is not None:
            allows = ~(self.short_query_concurrency < MIN_MEETING_CONCURRENCY)
        return allows

    @property
    def filled_by_others(self) -> Mask:
        """Where it is full and most of that is not the server's, shape (intervals,)."""
        if self.own is None:
            return np.zeros(len(self.utilisation), dtype=np.bool_)
        full = self.utilisation >= FULL_UTILISATION * self.ceiling
        filled: Mask = full & (self.own < MAJORITY * self.ceiling)
        return filled

    def is_used_by_other_programs(self, x: Array) -> Mask:
        """Mark where other programs used a good part of it; x in queries/s, shape (intervals,)."""
        if self.own is None:
            return np.zeros(len(x), dtype=np.bool_)
        others: Mask = self.use_by_other_programs(x) > OTHER_PROGRAMS_SHARE
        return others

    def use_by_other_programs(self, x: Array) -> Array:
        """Compute the use by others beyond their use per query times x, a share of the ceiling.

        x in queries/s, shape (intervals,), as the result; NaN where that is not known.
        """
        others: Array = self._use_by_others - self.use_by_others_per_query(x) * x
        return others

    def use_by_others_per_query(self, x: Array) -> float:
        """Return the use by others per query, a share of the ceiling for one query/s; NaN: unknown.

        That of the whole window, or else estimated from x, queries/s, shape (intervals,): beside
        programs that fill it nearly always, the least that others use.
        """
        if self.others_per_query is not None:
            return self.others_per_query
        others = self._use_by_others
        known = (x > 0) & np.isfinite(others)
        follows = known & ~self.filled_by_others
        if np.count_nonzero(follows) >= MIN_POINTS:
            return _use_by_others_per_query(x[follows], others[follows])
        if np.count_nonzero(known) < MIN_POINTS:
            return np.nan
        return max(quantile(others[known] / x[known], LOW_QUANTILE), 0.0)

    @property
    def _use_by_others(self) -> Array:
        """The use by others, shares of the ceiling, NaN where unknown; shape (intervals,)."""
        own = np.nan if self.own is None else self.own
        others: Array = (self.utilisation - own) / self.ceiling
        return others

    def use_for_server_queries(self, x: Array) -> Array:
        """Compute the use for the server's queries, a share of the ceiling, shape (intervals,).

        It includes what clients on the same host use for them. Beside other programs it is the
        server's own part, NaN where that is not known. x is the throughput, queries/s.
        """
        ours = self.relative_own_use
        apart = self.is_used_by_other_programs(x) | np.isnan(ours)
        used: Array = np.where(apart, ours, self.relative_use)
        return used

    @cached_property
    def relative_use(self) -> Array:
        """The utilisation by all as a share of the ceiling, shape (intervals,)."""
        return self.utilisation / self.ceiling

    @property
    def relative_own_use(self) -> Array:
        """The utilisation by the server, or by all where that is not known; (intervals,)."""
        return self.relative_use if self.own is None else self.own / self.ceiling

    def with_columns_changed(self, change: Callable[[Array], Array]) -> "Resource":
        """Return the resource with each column, shape (intervals,), changed."""
        changed: dict[str, Any] = {
            name: change(column) for name in COLUMNS if (column := getattr(self, name)) is not None
        }
        for name in ("log_sharing", "wakeups"):
            cost: SharedCost | None = getattr(self, name)
            if cost is not None:
                changed[name] = cost.with_saved(change(cost.saved))
        return replace(self, **changed)

    def with_shared_costs(self, x: Array, n: Array, *, log_counted: bool = True) -> "Resource":
        """Return the resource with what queries share: idle entries, log writes, others' work.

        x in queries/s and n, the concurrency, in threads, both of shape (intervals,).
        """
        idle, log = self.idle_entries, self.log_writes
        return replace(
            self,
            short_query_concurrency=self._short_query_concurrency(x, n) if idle is None else None,
            wakeups=None if idle is None else SharedCost.of(x, idle),
            log_sharing=None if log is None else SharedCost.of(x, log),
            may_wait_for_log=not log_counted and self._is_waited_elsewhere(x, n),
            others_per_query=self.use_by_others_per_query(x),
        )

    def _is_waited_elsewhere(self, x: Array, n: Array) -> bool:
        """Return whether at low loads statements take clearly longer than they use a processor."""
        if self.own is None or self.count is None:
            return False
        known = (x > 0) & np.isfinite(n) & (self.own > 0)
        if np.count_nonzero(known) < MIN_POINTS:
            return False
        low = known & (x <= median(x[known]))
        return median(n[low]) > CLEAR_RATIO * self.count * median(self.own[low])

    def _short_query_concurrency(self, x: Array, n: Array) -> Array | None:
        """Compute n for each processor where waking one may be a good part of a query's cost."""
        if self.processors is None or self.own is None or self.is_of_statements:
            return None
        is_short = self.own * self.processors < SHORT_QUERY_SECONDS * x
        return np.where(is_short, n / self.processors, np.nan)


def _use_by_others_per_query(x: Array, others: Array) -> float:
    """Compute the use by others per query: the increase with x of the least that they use.

    x in queries/s, others as a share of the ceiling, both of shape (intervals,). The increase is
    that from the lower half of the throughputs to the upper one (A. Wald 1940), two standard errors
    more, where the halves differ.
    """
    least = max(quantile(others / x, LOW_QUANTILE), 0.0)
    halves = (x <= median(x), x > median(x))
    if not halves[1].any():
        return least
    low, high = (median(x[half]) for half in halves)
    if high < MIN_LOAD_RATIO * low:
        return least
    (a, a_middle), (b, b_middle) = (
        quantiles(others[half], (LOW_QUANTILE, QUANTILES[1])) for half in halves
    )
    error = np.hypot(a_middle - a, b_middle - b) / np.sqrt(len(x) / 2)
    return float(min(least, max(b - a + SIGNIFICANT_Z * error, 0.0) / (high - low)))


@dataclass(frozen=True, eq=False)
class UtilisationCurve:
    """A utilisation over the throughput, 1 is the ceiling."""

    coefficients: Array = field(repr=False)
    """Of 1, t and t², shape (3,), where t is the throughput in units of `unit`, queries/s."""
    unit: float

    def at(self, x: Array) -> Array:
        """Compute the utilisation at throughputs x, queries/s, shape (k,)."""
        busy: Array = (x[:, None] / self.unit) ** np.arange(3) @ self.coefficients
        return busy


@dataclass(frozen=True, eq=False)
class ResourceLimit:
    """The throughput (queries/s) at which a resource is full."""

    resource: str
    x_max: float | None
    """The median; None where there is none."""
    x_max_interval: CredibleInterval | None
    demand: float | None
    """D: the utilisation that one query/s adds at the loads seen."""
    growth: float
    """The probability that the demand grows with the load."""
    utilisation_max: float
    """The highest utilisation seen, as a share of the ceiling."""
    trust: Trust
    reasons: tuple[LimitReason, ...]
    grid: Array = field(repr=False)
    """ln throughput, ascending; `cdf` has the probability that the limit is lower."""
    cdf: Array = field(repr=False)
    waking: float = 0.0
    """The cost of waking an idle processor as a part of a query's demand at the limit, from its
    expected part of an idle processor's demand; 0 where waking costs nothing."""
    further_fall: float = 0.0
    """The share by which the demand is expected to fall from the highest loads to the limit."""
    log_shared: float = 0.0
    """The probability that its demand falls as more commits share the writes of the log."""
    demand_error: float | None = None
    """The standard error of the demand; None: not known."""
    curve: UtilisationCurve | None = field(repr=False, default=None)
    """The server's use of the resource over the throughput, as fitted; None: not known."""

    @classmethod
    def none(cls, resource: str, seen: float, reason: LimitReason) -> "ResourceLimit":
        """Create the result for a resource without a limit, with the reason."""
        grid = np.array([0.0, 1.0])
        unknown, reasons = Trust.NOT_IDENTIFIABLE, (reason,)
        return cls(resource, None, None, None, 0.0, seen, unknown, reasons, grid, 0 * grid)

    @property
    def usable(self) -> bool:
        """Whether there is a limit at all, however uncertain."""
        return self.x_max is not None

    def is_passed(self, x: float) -> bool:
        """Return whether an observed throughput x (queries/s) refutes it: P(limit > x) < 5 %."""
        return self.usable and float(self.survival(np.log(x))) < QUANTILES[0]

    def survival(self, ln_x: Array) -> Array:
        """Compute P(limit > x) at each ln throughput (queries/s), of any shape."""
        return 1 - np.interp(ln_x, self.grid, self.cdf)
