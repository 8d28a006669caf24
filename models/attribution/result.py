"""A resource divided over classes: the use of each, the prediction error, and reasons for doubt."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from models.arrays import Array
from models.attribution.division_methods import Predictor
from models.attribution.waiting_classes import IO_BOUND_SHARE
from models.attribution.weighted_linear_regression import Line
from models.reason_enum import ReasonEnum
from models.trust import FULL_LOAD

MIN_INTERVALS = 60
STEADY_MAPE = 0.08
"""Held-out error of the model: 0.03 to 0.06 where a call's cost is steady, else 0.1 to 0.2."""
COMPUTING_CPU_SHARE = 0.15
"""CPU seconds per second of work time of classes that compute: 0.3 to 0.8 on a healthy server."""


class AttributionReason(ReasonEnum):
    """Why an attribution is less reliable."""

    FEW_INTERVALS = (
        "few_intervals",
        f"fewer than {MIN_INTERVALS} intervals: costs per class are uncertain",
    )
    COST_VARIES = (
        "cost_varies",
        "the cost per call varies: some intervals are predicted badly from others",
    )
    SATURATED = "saturated", "the host is saturated, and time spent queueing looks like work"
    IO_BOUND = "io_bound", "the host waits for IO, and the cost per call varies with it"
    MOSTLY_WAITING = "mostly_waiting", "statements wait most of their time: IO-bound or saturated"
    WAITS_UNSEEN = (
        "waits_unseen",
        "this method counts all time as work; classes that wait get too much",
    )
    WITHHELD = "withheld", "predicted too badly to be attributed (attribute --method learned does)"


@dataclass(frozen=True)
class HostUse:
    """Mean parts of the host's time, 0..1; None where unknown."""

    busy: float | None = None
    io_wait: float | None = None
    running: float | None = None
    """Of the time in which the server's threads could run, the part in which they had a CPU."""


@dataclass(frozen=True)
class ReasonInputs:
    """The figures from which the reasons are derived."""

    intervals: int
    held_out_mape: float | None
    level: float | None
    """CPU seconds per second of work time of the classes that compute; None if it is not CPU."""
    host: HostUse
    time_is_work: bool
    is_measured: bool = False
    """Whether the server itself accounts for the use of each class."""


def find_reasons(signs: ReasonInputs) -> tuple[AttributionReason, ...]:
    """List every reason why the attribution is less reliable, the most general first.

    There is none if it was measured: they concern estimates.
    """
    if signs.is_measured:
        return ()
    found = {
        AttributionReason.FEW_INTERVALS: signs.intervals < MIN_INTERVALS,
        AttributionReason.COST_VARIES: (signs.held_out_mape or 0.0) > STEADY_MAPE,
        AttributionReason.SATURATED: (signs.host.busy or 0.0) > FULL_LOAD,
        AttributionReason.IO_BOUND: (signs.host.io_wait or 0.0) > IO_BOUND_SHARE,
        AttributionReason.MOSTLY_WAITING: signs.level is not None
        and signs.level < COMPUTING_CPU_SHARE,
        AttributionReason.WAITS_UNSEEN: signs.time_is_work,
    }
    return tuple(reason for reason, true in found.items() if true)


class DivisionMethod(StrEnum):
    """The method by which a resource is divided."""

    AUTO = "auto"
    MEASURED = "measured"
    WORK_TIME = "work-time"
    LEARNED = "learned"
    WLR = "wlr"


@dataclass(frozen=True)
class ClassUse:
    """The use of the resource by one class, units of y."""

    name: str
    total: float
    share: float
    """Of what all classes used together: shares add up to 1, or are 0."""
    stderr: float | None
    """Standard error of total; None if it was measured or is not known."""
    line: Line
    """Its part over its time, statement time for wlr, else work time; units of y per unit of it."""
    waits: bool
    """Whether its time passes without use: by its digest text, or as estimated."""


@dataclass(frozen=True)
class PredictionError:
    """Predicted against actual use; None if undefined. On the fitted data itself it is no check."""

    mape: float | None
    """Mean of |actual − predicted|/actual over intervals with actual > 0."""
    r_squared: float | None
    """Squared correlation."""
    slope: float | None
    """Of the regression of predicted on actual."""

    @classmethod
    def of(cls, actual: Array, predicted: Array) -> "PredictionError":
        """Compare two series of shape (T,)."""
        busy = actual > 0
        a, p = actual[busy], predicted[busy]
        if not len(a):
            return cls(None, None, None)
        mape = float(np.mean(np.abs(a - p) / a))
        da, dp = a - a.mean(), p - p.mean()
        s_aa, s_pp, s_ap = float(da @ da), float(dp @ dp), float(da @ dp)
        tiny = 1e-20 * len(a)
        if len(a) < 2 or s_aa <= tiny * float(a.max()) ** 2:
            return cls(mape, None, None)
        varies = s_pp > tiny * float(np.abs(p).max()) ** 2
        return cls(mape, min(s_ap**2 / (s_aa * s_pp), 1.0) if varies else None, s_ap / s_aa)


@dataclass(frozen=True)
class Attribution:
    """An aggregate divided over classes. Totals and `unattributed` add up to `total`."""

    method: DivisionMethod
    total: float
    classes: tuple[ClassUse, ...]
    unattributed: float
    predictor: Predictor
    fit: PredictionError
    held_out: PredictionError
    """Each quarter of the intervals predicted from the others."""
    disagreement: float | None
    """Σ|share − other share| between the source and the next best one, where there is one."""
    compared_with: DivisionMethod | None
    """That next best source, used as if requested: work time is `divide_by_work_time` alone."""
    reasons: tuple[AttributionReason, ...]
    intervals: int

    @property
    def ranked(self) -> list[ClassUse]:
        """The classes, greatest use first."""
        return sorted(self.classes, key=lambda use: (-use.total, use.name))

    @property
    def totals(self) -> Array:
        """The use by each class, shape (K,), in the order of the intervals' names."""
        return np.array([use.total for use in self.classes])


def disagreement(one: Array, other: Array) -> float | None:
    """Σ|share − other share| over classes, shape (K,) each, 0 to 2; None where nothing was used."""
    a, b = float(one.sum()), float(other.sum())
    if a <= 0 or b <= 0:
        return None
    return float(np.abs(one / a - other / b).sum())
