"""How far to trust a predicted peak: three levels, and a fixed list of reasons."""

from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from models.reason_enum import ReasonEnum
from models.shared_constants import MAJORITY, SIGNIFICANT_Z
from models.usl.points_and_scatter import LAW_PARAMETERS, Scatter


class Trust(StrEnum):
    """How far a predicted peak can be relied on."""

    TRUSTED = "trusted"
    INDICATIVE = "indicative"
    NOT_IDENTIFIABLE = "not_identifiable"

    def at_most(self, other: "Trust") -> "Trust":
        """Return the lower of two levels."""
        ladder = list(Trust)
        return max(self, other, key=ladder.index)


class Reason(ReasonEnum):
    """Why a peak is not trusted, the most important first."""

    FEW_LEVELS = "few_levels", "there are points at fewer than three different concurrencies"
    NO_PEAK = "no_peak", "the fitted law has no peak: no coherency cost shows in the points"
    PEAK_BELOW_DATA = (
        "peak_below_data",
        "throughput falls from the lowest load on: the peak is at a lower load",
    )
    SEEN_ABOVE_PEAK = (
        "seen_above_peak",
        "throughput was seen above the highest peak that the points allow",
    )
    LOAD_TOO_LOW = "load_too_low", "the load seen is below 70 % of the predicted peak"
    WIDE_INTERVAL = "wide_interval", "the peak's interval is too wide"
    STILL_GROWING = "still_growing", "throughput was still growing at the highest loads"
    NOISY_POINTS = "noisy_points", "the points scatter too much for their number"
    RESIDUAL_PATTERN = (
        "residual_pattern",
        "the residuals have a pattern: the points follow another curve",
    )
    SUPERLINEAR = (
        "superlinear",
        "throughput grows faster than concurrency, which the law cannot describe",
    )
    NO_INTERVAL = "no_interval", "this method does not give the uncertainty of its peak"


MIN_LOAD = 0.7
"""The least share of the predicted peak, or capacity, that must have been seen."""
INDICATIVE_RATIO = 2.0
"""The bound of the 95 % quantile over the 5 % quantile of Xmax, of a limit and of the capacity."""
TRUSTED_RATIO = sqrt(INDICATIVE_RATIO)
"""The same, to be trusted: half as wide in its logarithm."""
FULL_LOAD = 0.9
"""The share of what a host, a server or a group can do from which on it is full: users wait, and
more of them add no throughput."""
MAX_GROWTH = 0.15
"""Growth has ended where dlnX/dlnN at the highest loads is less. Curves that paused and rose again
grew by 0.2 and more there."""
ENDING_RATIO = 1.3
"""Growth is ending, with one more step, if it has fallen by half, and the quantiles' ratio is below
this. No peak trusted by this rule was off by 15 %."""
MAX_ERROR = 0.05
"""The greatest relative error of a throughput or concurrency that is known well. √Σ(error²) must be
at most that times the number of points beyond three: 10 % noise needs 10 points, 20 % needs 22. A
pattern of the errors counts if it exceeds that and its score `SIGNIFICANT_Z`."""


@dataclass(frozen=True)
class PeakEvidence:
    """The evidence on which trust is based: n in threads, x in queries/s."""

    levels: int
    n_observed_min: float
    x_observed_max: float
    """The highest throughput seen, or the law's at the loads seen if lower, to leave out noise."""
    n_max: float | None
    x_max: float | None
    """The central estimate: the posterior's median where there is one."""
    x_max_interval: tuple[float, float] | None
    superlinear: bool
    seen_above_peak: bool = False
    """A point, outliers included, lies above the interval by more than noise explains."""
    growth: float = 0.0
    """dlnX/dlnN at the highest loads."""
    growth_before: float = 0.0
    """The same at the loads below; nan where nothing was measured there."""
    scatter: Scatter | None = None


@dataclass(frozen=True)
class Judgement:
    """The trust, and every reason against a higher one, in the order of the enumeration."""

    trust: Trust
    reasons: tuple[Reason, ...]


def judge_peak(evidence: PeakEvidence) -> Judgement:
    """Judge how far to trust a peak.

    A law cannot predict a second rise, so for a peak to be trusted growth must have ended, or end
    with the next step.
    """
    forbidding = {
        Reason.FEW_LEVELS: evidence.levels < LAW_PARAMETERS,
        Reason.LOAD_TOO_LOW: evidence.n_max is not None and _load_share(evidence) < MIN_LOAD,
        Reason.NO_PEAK: evidence.n_max is None,
        Reason.PEAK_BELOW_DATA: evidence.n_max is not None
        and evidence.n_max < evidence.n_observed_min,
        Reason.SEEN_ABOVE_PEAK: evidence.seen_above_peak,
    }
    weakening = {
        Reason.STILL_GROWING: evidence.levels > 1
        and not (evidence.growth < MAX_GROWTH or _growth_is_ending(evidence)),
        Reason.NOISY_POINTS: _is_noisy(evidence.scatter),
        Reason.RESIDUAL_PATTERN: _has_pattern(evidence.scatter),
        Reason.WIDE_INTERVAL: _interval_ratio(evidence) >= TRUSTED_RATIO,
        Reason.NO_INTERVAL: evidence.x_max_interval is None,
        Reason.SUPERLINEAR: evidence.superlinear,
    }
    reasons = tuple(r for r in Reason if forbidding.get(r) or weakening.get(r))
    refused = any(forbidding.values())
    return Judgement(
        trust_of(_interval_ratio(evidence), doubted=bool(reasons), refused=refused), reasons
    )


def trust_of(ratio: float, *, doubted: bool, refused: bool = False) -> Trust:
    """Return the trust in a prediction: the law's, a resource limit's or the capacity's.

    ratio is the 95 % quantile over the 5 % quantile. What is refused, or known no better than by a
    factor of two, is not identifiable; what is doubted is indicative.
    """
    if refused or not ratio < INDICATIVE_RATIO:
        return Trust.NOT_IDENTIFIABLE
    return Trust.INDICATIVE if doubted else Trust.TRUSTED


def _growth_is_ending(evidence: PeakEvidence) -> bool:
    return (
        evidence.growth <= MAJORITY * evidence.growth_before
        and _interval_ratio(evidence) < ENDING_RATIO
    )


def _is_noisy(scatter: Scatter | None) -> bool:
    return scatter is not None and scatter.squares**0.5 > MAX_ERROR * (
        scatter.points - LAW_PARAMETERS
    )


def _has_pattern(scatter: Scatter | None) -> bool:
    return (
        scatter is not None
        and scatter.pattern > MAX_ERROR
        and scatter.pattern_score > SIGNIFICANT_Z
    )


def _load_share(evidence: PeakEvidence) -> float:
    return evidence.x_observed_max / evidence.x_max if evidence.x_max else 0.0


def _interval_ratio(evidence: PeakEvidence) -> float:
    interval = evidence.x_max_interval
    return interval[1] / interval[0] if interval else 1.0
