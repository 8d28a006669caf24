"""Quantities of two periods side by side, and which of them changed beyond the uncertainty."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from agent.compare.period_class_costs import ClassCosts
from agent.compare.periods import AssessedPeriod
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import Capacity
from models.distribution_functions import NORMAL_95
from models.estimate_difference import (
    NOT_KNOWN,
    ComparedEstimate,
    EstimatedChange,
    Verdict,
    compare_difference,
    compare_ratio,
)
from models.trust import Reason, Trust
from models.usl.fit import UslFit

UNKNOWN = ComparedEstimate(None)
LAW = ("sigma", "kappa", "lambda")
REASONS_AGAINST_LAW = (
    Reason.FEW_LEVELS,
    Reason.SEEN_ABOVE_PEAK,
    Reason.NOISY_POINTS,
    Reason.RESIDUAL_PATTERN,
    Reason.SUPERLINEAR,
)
"""Reasons for doubt in the parameters, and not only in the position of the peak."""


class Unit(StrEnum):
    """The unit of a quantity."""

    QUERIES = "queries/s"
    SECONDS = "s"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity; `change` is a difference where `is_difference`, else a ratio."""

    name: str
    unit: Unit
    before: ComparedEstimate
    after: ComparedEstimate
    change: EstimatedChange
    is_difference: bool = False
    why: str = ""
    """Why there is no verdict, in words."""

    @property
    def has_changed(self) -> bool:
        """Whether the change is beyond the uncertainty."""
        return self.change.verdict in (Verdict.HIGHER, Verdict.LOWER)

    @property
    def is_known(self) -> bool:
        """Whether a value or a bound of it is known in either period."""
        return any(e != UNKNOWN for e in (self.before, self.after))


@dataclass(frozen=True, eq=False, slots=True)
class Comparison:
    """Two periods of one target, and every quantity of both."""

    target: str
    before: AssessedPeriod
    after: AssessedPeriod
    rows: tuple[Compared, ...]
    loads_differ: bool
    source_notes: tuple[str, ...] = ()
    """Remarks on the recording, such as on what of it was not used."""

    @property
    def has_changed(self) -> bool:
        """Whether anything changed beyond the uncertainty."""
        return any(row.has_changed for row in self.rows)


def compare(before: AssessedPeriod, after: AssessedPeriod) -> list[Compared]:
    """Compare the capacity, the law's parameters, and the demand for each resource."""
    first, second = before.capacity, after.capacity
    return [
        _compare_capacity(first, second),
        *_compare_laws(first, second),
        *_compare_demands(before, after),
    ]


def compare_classes(before: ClassCosts, after: ClassCosts) -> Iterator[Compared]:
    """Compare the costs of a call of each class, those with the most statement time first."""
    for name in after.largest_classes_with(before):
        for quantity in ("statement_time", "cpu"):
            first, second = before.cost(name, quantity), after.cost(name, quantity)
            if first.value is None and second.value is None:
                continue
            yield _compare_ratio(f"{quantity}:{name}", Unit.SECONDS, first, second, _class_refusal)


def loads_differ(before: AssessedPeriod, after: AssessedPeriod) -> bool:
    """Return whether the loads of the periods do not overlap: costs may depend on the load."""
    return before.loads[2] < after.loads[0] or after.loads[2] < before.loads[0]


def _compare_capacity(first: Capacity | None, second: Capacity | None) -> Compared:
    before, after = (
        UNKNOWN if c is None else ComparedEstimate(c.value, c.lower, c.upper)
        for c in (first, second)
    )
    for side, found in _sides(first, second):
        if found is None or found.value is None or found.trust is Trust.NOT_IDENTIFIABLE:
            reason = found.reasons[0].sentence if found and found.reasons else "not identifiable"
            why = f"{side}: {reason}"
            return Compared("capacity", Unit.QUERIES, before, after, NOT_KNOWN, why=why)
    return _compare_ratio(
        "capacity", Unit.QUERIES, before, after, lambda side: f"{side}: no confidence interval"
    )


def _compare_laws(first: Capacity | None, second: Capacity | None) -> Iterator[Compared]:
    laws = (first.usl if first else None, second.usl if second else None)
    refusals = [f"{side}: {why}" for side, c in _sides(first, second) if (why := _law_refusal(c))]
    for name in LAW:
        before, after = _parameter(laws[0], name), _parameter(laws[1], name)
        is_difference, unit = name != "lambda", Unit.QUERIES if name == "lambda" else Unit.NONE
        change, why = (compare_difference if is_difference else compare_ratio)(before, after), ""
        if refusals:
            change, why = NOT_KNOWN, refusals[0]
        yield Compared(name, unit, before, after, change, is_difference, why)


def _parameter(law: UslFit | None, name: str) -> ComparedEstimate:
    if law is None:
        return UNKNOWN
    key = "lam" if name == "lambda" else name
    interval = getattr(law.law_intervals, key, None)
    low, high = interval or (None, None)
    return ComparedEstimate(getattr(law.law, key), low, high)


def _law_refusal(capacity: Capacity | None) -> str:
    """Return why the law does not describe the points, or ""; a distant peak is no reason."""
    law = capacity.usl if capacity else None
    if capacity is None or law is None:
        return "no law was fitted"
    if capacity.usl_finding is not None:
        return capacity.usl_finding.check.sentence
    return next((reason.sentence for reason in law.reasons if reason in REASONS_AGAINST_LAW), "")


def _sides(
    first: Capacity | None, second: Capacity | None
) -> tuple[tuple[str, Capacity | None], ...]:
    return ("before", first), ("after", second)


def _compare_demands(first: AssessedPeriod, second: AssessedPeriod) -> Iterator[Compared]:
    """Compare the demand of a query for each resource, in seconds of the whole resource.

    Of processors and connections those of the second period are the whole: more of them make no
    query cheaper.
    """
    resource_limits = [
        {w.resource: w for w in side.capacity.resource_limits} if side.capacity else {}
        for side in (first, second)
    ]
    for name in sorted({*resource_limits[0], *resource_limits[1]}):
        scales = (_limit_ratio(name, first, second), 1.0)
        before, after = (
            _demand(limits.get(name), scale)
            for limits, scale in zip(resource_limits, scales, strict=True)
        )

        def why(side: str, name: str = name) -> str:
            resource_limit = resource_limits[0 if side == "before" else 1].get(name)
            if resource_limit is None:
                return f"{side}: not measured"
            if resource_limit.demand is None or not resource_limit.reasons:
                reasons = resource_limit.reasons
                return f"{side}: {reasons[0].sentence if reasons else 'no demand'}"
            return f"{side}: its uncertainty is not known"

        yield _compare_ratio(f"demand:{name}", Unit.SECONDS, before, after, why)


def _limit_ratio(resource: str, first: AssessedPeriod, second: AssessedPeriod) -> float:
    """Return the limit of the first period over that of the second; 1 if not known."""
    before, after = (side.changeable_limits.get(resource) for side in (first, second))
    return before.usual / after.usual if before and after else 1.0


def _demand(resource_limit: ResourceLimit | None, scale: float) -> ComparedEstimate:
    if resource_limit is None or resource_limit.demand is None:
        return UNKNOWN
    demand = scale * resource_limit.demand
    if resource_limit.demand_error is None:
        return ComparedEstimate(demand)
    margin = scale * NORMAL_95 * resource_limit.demand_error
    return ComparedEstimate(demand, demand - margin, demand + margin)


def _class_refusal(side: str) -> str:
    return f"{side}: its use was recorded too few times in the period"


def _compare_ratio(
    name: str,
    unit: Unit,
    before: ComparedEstimate,
    after: ComparedEstimate,
    why: Callable[[str], str],
) -> Compared:
    """Compare by ratio; `why` returns for a side (before, after) the reason why it is unknown."""
    change = compare_ratio(before, after)
    if change.verdict is not Verdict.CANNOT_TELL:
        return Compared(name, unit, before, after, change)
    sides = {"before": before, "after": after}
    unbounded = [side for side, known in sides.items() if not known.is_bounded]
    return Compared(name, unit, before, after, change, why=why((unbounded or ["after"])[0]))
