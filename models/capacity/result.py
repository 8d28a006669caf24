"""The assessed capacity of a server: a number with bounds, the limit, and the trust."""

from dataclasses import dataclass, field

from models.capacity.change_points import Regimes
from models.capacity.contention_peak import ContentionPeak
from models.capacity.distribution import Distribution
from models.capacity.goodness_of_fit import Finding
from models.capacity.outliers import Outliers
from models.capacity.resource_and_limit import ResourceLimit
from models.reason_enum import ReasonEnum
from models.trust import Trust
from models.usl.fit import UslFit

USL = "usl"
"""The limit's name where contention and coherency end the growth, not a resource."""


class CapacityReason(ReasonEnum):
    """Why the capacity is not trusted, the most important first, or a remark on it."""

    NO_LIMIT_SEEN = "no_limit_seen", "no limit by a resource or by contention is visible yet"
    MODEL_DOES_NOT_FIT = "model_does_not_fit", "the highest loads contradict the model"
    RECENT_COST_DIFFERS = (
        "recent_cost_differs",
        "recent cost per query differs from the window's average",
    )
    COST_FLUCTUATES = (
        "cost_fluctuates",
        "the cost per query fluctuates or drifts; so may the capacity",
    )
    OTHERS_FLUCTUATE = "others_fluctuate", "other processes' use of a resource fluctuates"
    CLOCK_LOW = "clock_low", "a lowered CPU clock makes the processor look busier than it is"
    DEMAND_FALLS = "demand_falls", "queries may still get cheaper as more of them overlap"
    TWO_WORKLOADS = "two_workloads", "two workloads alternate; the capacity is the busier one's"
    THROUGHPUT_PLATEAU = (
        "throughput_plateau",
        "throughput stopped growing though no resource is full",
    )
    LAW_DOES_NOT_FIT = (
        "law_does_not_fit",
        "the law that sets the limit does not fit the measurements",
    )
    LAW_UNCERTAIN = "law_uncertain", "only the fitted law sets the limit, and its peak is uncertain"
    ONE_LOAD = "one_load", "the load hardly varied, so growth of throughput was not seen"
    LOAD_TOO_LOW = "load_too_low", "the highest load was too small a share of the capacity"
    FEW_HIGH_LOADS = "few_high_loads", "fewer than eight intervals reached 80 % of the capacity"
    WIDE_INTERVAL = "wide_interval", "the capacity's interval is too wide"
    CONTENTION_UNKNOWN = (
        "contention_unknown",
        "contention may end the growth before a resource is full",
    )
    WAITS_COUNTED = (
        "waits_counted",
        "statements that wait elsewhere count as if they used the limit",
    )
    POOL_MAY_GROW = "pool_may_grow", "the limit is the clients' connections; they may open more"
    CPU_ASSUMED = "cpu_assumed", "only statements' CPU time is known; its share of all is assumed"
    CONCURRENCY_UNKNOWN = (
        "concurrency_unknown",
        "concurrency is too low or too noisy to see contention",
    )
    NO_RESOURCE_LIMIT = "no_resource_limit", "no resource's limit is known"
    OTHERS_INTERFERE = (
        "others_interfere",
        "other processes often used a good part of a busy resource",
    )
    MIX_CHANGED = (
        "mix_changed",
        "the cost per query changed (another workload, or a faster or slower machine); older "
        "intervals were left out",
    )


REMARKS = {
    CapacityReason.CONTENTION_UNKNOWN,
    CapacityReason.CONCURRENCY_UNKNOWN,
    CapacityReason.NO_RESOURCE_LIMIT,
    CapacityReason.MIX_CHANGED,
    CapacityReason.TWO_WORKLOADS,
}
"""Reasons that by themselves do not lower trust: the interval includes their effect."""


@dataclass(frozen=True, eq=False)
class Capacity:
    """The capacity (queries/s), its trust and its limit, and the results that it is based on."""

    value: float | None
    """The median; the law's Xmax where there is no limit. None: only a lower bound is known."""
    lower: float | None
    """At least this much: the 5 % quantile. None where nothing was seen."""
    upper: float | None
    """The 95 % quantile; None where no upper bound is known."""
    limit: str | None
    """What most likely ends the growth: a resource's name, or "usl"."""
    shares: dict[str, float]
    """The probability of each limit to be the lowest; they sum to 1."""
    trust: Trust
    reasons: tuple[CapacityReason, ...]
    x_seen: float
    settling_throughput: float | None
    """The load to measure next, queries/s. None where more load would not help."""
    distribution: Distribution | None = field(repr=False, default=None)
    """P(C ≤ x), of which `lower` and `upper` are quantiles; None where only they are known."""
    concurrency: float | None = None
    """N at the capacity, threads; None: not known."""
    concurrency_upper: float | None = None
    """With more statements at once than this the server is past its peak, threads."""
    filling_concurrency: float | None = None
    """N that fills the limiting processors while no statement waits; None: another limit."""
    concurrency_seen: float | None = None
    """N of the intervals with the highest throughputs, threads; None: not known."""
    resource_limits: tuple[ResourceLimit, ...] = field(repr=False, default=())
    usl: UslFit | None = field(repr=False, default=None)
    usl_finding: Finding | None = None
    """Why there is no law, or what is wrong with it."""
    contention: ContentionPeak | None = field(repr=False, default=None)
    """Where contention may end the growth, given the limits; None where not computed."""
    outliers: Outliers | None = field(repr=False, default=None)
    regimes: Regimes | None = field(repr=False, default=None)
