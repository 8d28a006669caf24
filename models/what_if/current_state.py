"""The state from which a prediction starts: the limits, the load, the time on each resource."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.shared_constants import MIN_LOAD_RATIO
from models.usl.law import Usl


class LimitKind(StrEnum):
    """The kind of a limit, which decides what changes move it."""

    CPU = "cpu"
    HOST_CPU = "host_cpu"
    """The whole host's, where the server may use only a part of it: a change of cores changes
    that part."""
    DISK_TIME = "disk_time"
    DISK_OPERATIONS = "disk_operations"
    DISK_BYTES = "disk_bytes"
    NETWORK = "network"
    CONTENTION = "contention"
    SETTING = "setting"


DISK_KINDS = (LimitKind.DISK_TIME, LimitKind.DISK_OPERATIONS, LimitKind.DISK_BYTES)
SAME_LOAD_LOG_RATIO = log(MIN_LOAD_RATIO)
"""Loads count as about the same if the logarithms of their throughputs differ by less."""
MAX_INDEPENDENT = 4
"""At most this many intervals count as independent of each other, as disturbances last."""


@dataclass(frozen=True)
class UseShare:
    """The share of a resource's use that one query class causes, 0 to 1."""

    value: float
    error: float = 0.0
    """Standard error, relative to the value."""


SharesByClass = Mapping[str, UseShare]
"""By class; classes whose share is not known are left out."""


@dataclass(frozen=True, eq=False)
class LimitDistribution:
    """One limit of the throughput, as a distribution."""

    name: str
    kind: LimitKind
    probability: float
    """The probability that it is the limit which ends the growth today."""
    grid: Array = field(repr=False)
    """ln queries/s, ascending, shape (places,)."""
    cdf: Array = field(repr=False)
    """The probability that the limit is lower, shape (places,)."""
    shares: SharesByClass = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceUse:
    """A query's use of one resource at today's load."""

    kind: LimitKind
    seconds: float
    """The service demand D of a query: the time that it takes on the resource without queues, s."""
    utilisation: float
    """How busy the resource is, 0 to 1."""
    own_utilisation: float
    """The part of the utilisation that the server's own work causes."""
    channels: float = 1.0
    """How many requests it serves at once, such as the processors; a quota may be less than 1."""
    is_waited_for: bool = True
    """Whether queries certainly wait for all of this time; for much disk work no query waits."""
    shares: SharesByClass = field(default_factory=dict)
    name: str = ""
    """The resource's name; the limit of the same name says where it is full."""


class MeasuredLoad(NamedTuple):
    """The mean load of the intervals with about the same throughput."""

    throughput: float
    """Queries/s."""
    residence_time: float
    """Seconds."""
    intervals: int


@dataclass(frozen=True, eq=False)
class CurrentLoad:
    """Today's load: X in queries/s and the residence time R = N/X in seconds."""

    throughput: float
    residence_time: float
    scatter: float = 0.0
    """Standard deviation of ln R from one interval to another of about the same load."""
    window: tuple[Array, Array] | None = field(repr=False, default=None)
    """X and N of the window's intervals before the peak, (intervals,) each; None: not known."""

    def mean_near(self, throughput: float) -> MeasuredLoad | None:
        """Average the window's intervals with about this throughput; None if there are none."""
        if self.window is None:
            return None
        xs, ns = self.window
        near = np.abs(np.log(xs / throughput)) <= SAME_LOAD_LOG_RATIO
        count = int(np.count_nonzero(near))
        if count == 0:
            return None
        served = float(np.sum(xs[near]))
        return MeasuredLoad(served / count, float(np.sum(ns[near])) / served, count)

    def scatter_of_mean(self, intervals: int) -> float:
        """Compute the standard deviation of ln R for the mean of this many intervals."""
        return self.scatter / sqrt(min(intervals, MAX_INDEPENDENT))


@dataclass(frozen=True, eq=False)
class CurrentState:
    """Everything from which a prediction starts."""

    capacity: float | None
    """Queries/s, with the 5 % and the 95 % quantile; None where not known."""
    lower: float | None
    upper: float | None
    limits: tuple[LimitDistribution, ...]
    load: CurrentLoad | None
    uses: tuple[ResourceUse, ...] = ()
    distribution: Distribution | None = field(repr=False, default=None)
    """The capacity's distribution; None where the capacity is not known."""
    law: Usl | None = None
    """The law of the present hardware; None where it cannot be fitted."""
    time_shares: SharesByClass = field(default_factory=dict)
    """The share of each class in all statement time."""
    seen: frozenset[LimitKind] = frozenset()
    """The kinds of resource whose use is known at all."""
    is_trusted: bool = True
    """Whether the capacity is trusted; if not, it is less certain than its `distribution`."""
    is_past_peak: bool = False
    """Whether more statements run than at the capacity: throughput does not show the load then."""

    def limit_index(self, name: str) -> int | None:
        """Return the index of the limit of a resource; None without one, or without a capacity."""
        names = [limit.name for limit in self.limits]
        return names.index(name) if name in names and self.capacity is not None else None

    def limit(self, kind: LimitKind) -> LimitDistribution | None:
        """Return the most likely limit of that kind; None without one."""
        known = [limit for limit in self.limits if limit.kind is kind]
        return max(known, key=lambda limit: limit.probability, default=None)

    @property
    def most_likely_limit(self) -> LimitDistribution | None:
        """The limit that most likely ends the growth today."""
        return max(self.limits, key=lambda limit: limit.probability, default=None)
