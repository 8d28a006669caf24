"""Published curves cut below their peak, each predicted by priors chosen without its study.

The truth is the greatest throughput that a curve shows. It is cut at a share of the load where
that was seen: points with N ≤ share · N(best). Most ladders double, so that 0.6 and 0.8 both leave
what was seen up to half of the load, and 0.4 what was seen up to a quarter of it; where fewer than
three points are left, there is no prediction.

Constants are chosen for each group with the other groups' curves alone, once by study and once by
author. A study is an author and a server: curves of one server resemble each other, and none is on
both sides. Two studies of one author may share a server or a habit; by author, these are on one
side too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import log

import numpy as np

from models.arrays import Array
from models.usl.fit import fit_bayes
from models.usl.peak_posterior_grid import PeakPrior
from testbed.published.curves import CURVES, Curve
from testbed.published.peak_estimators import PredictedPeak, peak_of

Grouping = Callable[[Curve], str]
Estimator = Callable[[Array, Array], PredictedPeak]

CUTS = (0.4, 0.6, 0.8)
WRONG = 0.15
"""A trusted peak must not be off by more."""
GROUPINGS: dict[str, Grouping] = {
    "study": lambda curve: curve.study,
    "author": lambda curve: curve.author,
}
MEANS, DEVIATIONS, NEARNESSES = (2.0, 2.5, 3.0, 3.5), (0.7, 1.0), (1.5, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class PredictionTask:
    """The points of a curve up to a share of its peak's load."""

    curve: Curve
    cut: float
    n: Array
    x: Array

    @property
    def x_max(self) -> float:
        """The highest throughput of the whole curve."""
        return self.curve.x_max


@dataclass(frozen=True, eq=False)
class PredictionScore:
    """The accuracy of the predictions from one cut; errors relative to the truth."""

    median: float
    far: float
    signed: float
    covered: float | None
    trusted: float
    wrong: int
    worst: float | None
    """The greatest error of a trusted prediction; None where none is trusted."""

    @classmethod
    def of(cls, tasks: list[PredictionTask], peaks: list[PredictedPeak]) -> "PredictionScore":
        """Score the predictions of these tasks."""
        errors = np.array([p.x_max / t.x_max - 1 for p, t in zip(peaks, tasks, strict=True)])
        size, trusted = np.abs(errors), np.array([p.trusted for p in peaks])
        median, far = np.quantile(size, (0.5, 0.9), method="higher")
        pairs = [(p.interval, t.x_max) for p, t in zip(peaks, tasks, strict=True)]
        held = [i.low <= x <= i.high for i, x in pairs if i]
        return cls(
            median=float(median),
            far=float(far),
            signed=float(np.quantile(errors, 0.5, method="higher")),
            covered=float(np.mean(held)) if held else None,
            trusted=float(trusted.mean()),
            wrong=int(np.sum(trusted & (size > WRONG))),
            worst=float(size[trusted].max()) if trusted.any() else None,
        )

    def __str__(self) -> str:
        """Format the cells of a row of the table."""
        errors = f"{100 * self.median:.0f} | {100 * self.far:.0f} | {100 * self.signed:+.0f}"
        if self.covered is None:
            return f"{errors} | – | – | –"
        worst = "–" if self.worst is None else f"{100 * self.worst:.0f} ({self.wrong})"
        return f"{errors} | {100 * self.covered:.0f} | {100 * self.trusted:.0f} | {worst}"


def tasks() -> list[PredictionTask]:
    """Cut every published curve at every share that leaves three points."""
    return [
        PredictionTask(curve, cut, n, x)
        for cut in CUTS
        for curve in CURVES
        for n, x in [curve.up_to(cut)]
        if len(n) >= 3
    ]


def scores(found: list[PredictionTask], peaks: list[PredictedPeak]) -> list[PredictionScore]:
    """Score the predictions by cut."""
    pairs = list(zip(found, peaks, strict=True))
    return [
        PredictionScore.of(
            [t for t, _ in pairs if t.cut == cut], [p for t, p in pairs if t.cut == cut]
        )
        for cut in CUTS
    ]


def held_out(
    found: list[PredictionTask], group: Grouping, predicted: dict[PeakPrior, list[PredictedPeak]]
) -> tuple[list[PredictedPeak], dict[str, PeakPrior]]:
    """Predict each group with the prior that is best on the others; return the priors too."""
    groups = dict.fromkeys(group(task.curve) for task in found)
    chosen = {
        held: min(predicted, key=lambda prior: _loss(found, predicted[prior], group, held))
        for held in groups
    }
    return [predicted[chosen[group(task.curve)]][i] for i, task in enumerate(found)], chosen


def predict_with_each(found: list[PredictionTask]) -> dict[PeakPrior, list[PredictedPeak]]:
    """Predict with every prior that can be chosen."""
    priors = [
        PeakPrior(log(mean), deviation, nearness)
        for mean, deviation, nearness in product(MEANS, DEVIATIONS, NEARNESSES)
    ]
    return {prior: predict_with(prior, found) for prior in priors}


def predict_with(prior: PeakPrior, found: list[PredictionTask]) -> list[PredictedPeak]:
    """Predict with this prior instead of the models' own."""
    return predict_by(lambda n, x: peak_of(fit_bayes(n, x, prior=prior)), found)


def predict_by(estimator: Estimator, found: list[PredictionTask]) -> list[PredictedPeak]:
    """Predict by this estimator, each part of a curve once: two cuts may have equal points."""
    parts = {(task.curve.name, len(task.n)): task for task in found}
    peaks = {part: estimator(task.n, task.x) for part, task in parts.items()}
    return [peaks[task.curve.name, len(task.n)] for task in found]


def _loss(
    found: list[PredictionTask], peaks: list[PredictedPeak], group: Grouping, held: str
) -> float:
    """Mean |ln(prediction/truth)|, at most 1 each, of the other groups' curves, and its bias.

    Of each cut alike: the size of the median logarithm is added to the mean.
    """
    logs: dict[float, list[float]] = {cut: [] for cut in CUTS}
    for task, peak in zip(found, peaks, strict=True):
        if group(task.curve) != held:
            logs[task.cut].append(log(peak.x_max / task.x_max))
    errors = [np.array(of_cut) for of_cut in logs.values()]
    return float(np.mean([np.minimum(abs(e), 1).mean() + abs(np.median(e)) for e in errors]))
