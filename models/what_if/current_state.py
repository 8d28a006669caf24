"""The state that changes start from: the capacity's limits, the load, the time on each resource."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt
from typing import NamedTuple

import numpy as np

from models.capacity.distribution import Distribution
from models.usl.law import Array, Usl


class Kind(StrEnum):
    """What a limit is made of, and so which change moves it."""

    CPU = "cpu"
    HOST_CPU = "host_cpu"
    """The whole host's, where the server may use a part of it only: a change of cores is one of
    that part."""
    DISK_TIME = "disk_time"
    DISK_OPERATIONS = "disk_operations"
    DISK_BYTES = "disk_bytes"
    NETWORK = "network"
    CONTENTION = "contention"
    SETTING = "setting"


DISK_KINDS = (Kind.DISK_TIME, Kind.DISK_OPERATIONS, Kind.DISK_BYTES)
SAME_LOAD_LOG_RATIO = 0.15
"""Of the throughput, as a logarithm: loads that differ by less are about the same."""
MAX_INDEPENDENT = 4
"""So many intervals at most count as independent of each other: what disturbs one lasts."""


@dataclass(frozen=True)
class Share:
    """The part of a resource's use that one query class makes, 0 to 1."""

    value: float
    error: float = 0.0
    """Standard error, as a part of the value."""


Shares = Mapping[str, Share]
"""By class; a class of which the share is not known is not in it."""


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit of the throughput, as a distribution."""

    name: str
    kind: Kind
    probability: float
    """That it is the one which ends the growth today."""
    grid: Array = field(repr=False)
    """ln queries/s, ascending, and the probability that the limit is lower."""
    cdf: Array = field(repr=False)
    shares: Shares = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """What a query takes of one resource at today's load."""

    kind: Kind
    seconds: float
    """Time that one request at a time would need for what a query asks of it, s."""
    utilisation: float
    """How busy the resource is, 0 to 1."""
    own: float
    """The part of the utilisation that the server's own work makes."""
    channels: float = 1.0
    """How many requests it serves at once: processors. A quota may be a part of one."""
    is_waited_for: bool = True
    """Whether queries surely wait for all of it. Much of what a disk does, none waits for."""
    shares: Shares = field(default_factory=dict)
    name: str = ""
    """The resource's; the limit of that name says where it is full."""


class MeasuredLoad(NamedTuple):
    """The mean load of the intervals with about one throughput."""

    throughput: float
    """Queries/s."""
    residence_time: float
    """Seconds."""
    intervals: int


@dataclass(frozen=True, eq=False)
class Load:
    """Today's load: X in queries/s and the residence time R = N/X in seconds."""

    throughput: float
    residence_time: float
    scatter: float = 0.0
    """Standard deviation of ln R from one interval to another of about the same load."""
    lighter: tuple[float, float] | None = None
    """X and R of the lightest loads of the window, medians; None where they are not known."""
    window: tuple[Array, Array] | None = field(repr=False, default=None)
    """X and N of the window's intervals, shape (intervals,) each; None where not known."""

    def near(self, throughput: float) -> MeasuredLoad | None:
        """Take the window's intervals with about that throughput together; None: it has none."""
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
        """Compute the standard deviation of ln R of the mean over so many intervals."""
        return self.scatter / sqrt(min(intervals, MAX_INDEPENDENT))


@dataclass(frozen=True, eq=False)
class CurrentState:
    """All that a prediction starts from."""

    capacity: float | None
    """Queries/s, with the 5 % and the 95 % quantile; None where not known."""
    lower: float | None
    upper: float | None
    limits: tuple[Limit, ...]
    load: Load | None
    uses: tuple[Use, ...] = ()
    distribution: Distribution | None = field(repr=False, default=None)
    """Of the capacity, where more is known of it than those three numbers."""
    law: Usl | None = None
    """The law of the present hardware; None where it cannot be fitted."""
    time_shares: Shares = field(default_factory=dict)
    """The part of all statement time that each class takes."""
    seen: frozenset[Kind] = frozenset()
    """Of which kinds of resource the use is known at all."""

    def place(self, name: str) -> int | None:
        """The place of the limit that a resource has; None where it has none."""
        names = [limit.name for limit in self.limits]
        return names.index(name) if name in names and self.capacity is not None else None

    def limit(self, kind: Kind) -> Limit | None:
        """The likeliest limit of that kind."""
        known = [limit for limit in self.limits if limit.kind is kind]
        return max(known, key=lambda limit: limit.probability, default=None)

    @property
    def first(self) -> Limit | None:
        """The limit that most likely ends the growth today."""
        return max(self.limits, key=lambda limit: limit.probability, default=None)
