"""Published curves, cut below their peak: predictions judged on studies that they know nothing of.

The truth is the greatest throughput that a curve shows. It is cut at a share of the load where
that was seen: points with N ≤ share · N(best). Most ladders double, so that 0.6 and 0.8 both leave
what was seen up to half of the load, and 0.4 what was seen up to a quarter of it; where fewer than
three points are left, there is no prediction.

Constants are chosen for each study with the other studies' curves alone: an author's curves of one
server resemble each other, and none is on both sides.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np
from other_estimators import (
    Peak,
    bounded_least_squares,
    least_squares,
    ours,
    peak_of,
    relative_prior,
    white_paper,
)

from models.usl.fit import fit_map
from models.usl.grid import TABLE, PeakPrior
from models.usl.law import Array

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from published_curves import CURVES

CUTS = (0.4, 0.6, 0.8)
WRONG = 0.15
"""A trusted peak must not be off by more."""
ESTIMATORS: dict[str, Callable[[Array, Array], Peak]] = {
    "white paper, linearised": white_paper,
    "least squares (usl4j)": least_squares,
    "bounded least squares (R usl)": bounded_least_squares,
    "prior relative to the load seen": relative_prior,
    "fit": ours,
}
MEANS, DEVIATIONS, NEARNESSES = (2.0, 2.5, 3.0), (0.5, 0.7, 1.0), (1.0, 1.5)


@dataclass(frozen=True, eq=False)
class Task:
    """The points of a curve up to a share of its peak's load, and the peak's throughput."""

    study: str
    name: str
    cut: float
    n: Array
    x: Array
    x_max: float


@dataclass(frozen=True, eq=False)
class Score:
    """How the predictions from one cut are; errors relative to the truth."""

    median: float
    far: float
    signed: float
    covered: float | None
    trusted: float
    wrong: int

    @classmethod
    def of(cls, tasks: list[Task], peaks: list[Peak]) -> "Score":
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
        )

    def __str__(self) -> str:
        """Median/90 % quantile, signed median; coverage; trusted, wrongly trusted."""
        told = f"{100 * self.median:.0f}/{100 * self.far:.0f} ({100 * self.signed:+.0f})"
        if self.covered is None:
            return told
        return f"{told}; {100 * self.covered:.0f}; {100 * self.trusted:.0f}, {self.wrong}"


def tasks() -> list[Task]:
    """Cut every published curve at every share that leaves three points."""
    return [
        Task(curve.study, curve.name, cut, n, x, curve.x_max)
        for cut in CUTS
        for curve in CURVES
        for n, x in [curve.up_to(cut)]
        if len(n) >= 3
    ]


def scores(found: list[Task], peaks: list[Peak]) -> list[Score]:
    """Score the predictions by cut."""
    pairs = list(zip(found, peaks, strict=True))
    return [
        Score.of([t for t, _ in pairs if t.cut == cut], [p for t, p in pairs if t.cut == cut])
        for cut in CUTS
    ]


def held_out(found: list[Task]) -> tuple[list[Peak], dict[str, PeakPrior]]:
    """Predict each study with the constants that do best on the others; tell which these are."""
    choices = [
        PeakPrior(log(mean), deviation, nearness)
        for mean, deviation, nearness in product(MEANS, DEVIATIONS, NEARNESSES)
    ]
    predicted = {choice: predict_with(choice, found) for choice in choices}
    chosen = {
        study: min(choices, key=lambda choice: _loss(found, predicted[choice], study))
        for study in dict.fromkeys(task.study for task in found)
    }
    return [predicted[chosen[task.study]][i] for i, task in enumerate(found)], chosen


def predict_with(prior: PeakPrior, found: list[Task]) -> list[Peak]:
    """Predict with this prior instead of the models' own."""
    return [peak_of(fit_map(task.n, task.x, prior=prior)) for task in found]


def _loss(found: list[Task], peaks: list[Peak], study: str) -> float:
    """Mean |ln(prediction/truth)|, at most 1 each, of the other studies' curves."""
    logs = [
        min(abs(log(peak.x_max / task.x_max)), 1.0)
        for task, peak in zip(found, peaks, strict=True)
        if task.study != study
    ]
    return float(np.mean(logs))


def print_published(*, choose: bool) -> None:
    """Print the table of all estimators, and the studies' own scores."""
    found = tasks()
    studies = sorted({task.study for task in found})
    print(f"{len(CURVES)} published curves, {len(found)} predictions, {len(studies)} studies\n")
    print("|error| of Xmax in %, median/90 % quantile (signed median); truths in the 90 % interval")
    print("in %; trusted in %, how many of these are off by more than 15 %\n")
    print("| points up to, of the peak's load | " + " | ".join(map(str, CUTS)) + " |")
    print("|---|" + "---|" * len(CUTS))
    predicted = {
        name: [estimate(task.n, task.x) for task in found] for name, estimate in ESTIMATORS.items()
    }
    for name, peaks in predicted.items():
        print(f"| {name} | " + " | ".join(map(str, scores(found, peaks))) + " |", flush=True)
    if choose:
        peaks, chosen = held_out(found)
        print("| fit, study held out | " + " | ".join(map(str, scores(found, peaks))) + " |")
        print("\nconstants chosen without the study: mean, deviation, nearness\n")
        for study, choice in chosen.items():
            print(f"- {study}: {exp(choice.mean):.1f}, {choice.deviation}, {choice.nearness}")
        print(f"- the models' own: {exp(TABLE.mean):.1f}, {TABLE.deviation}, {TABLE.nearness}")
    print_studies(found, predicted)


def print_studies(found: list[Task], predicted: dict[str, list[Peak]]) -> None:
    """Print the median |error| over all cuts, by study."""
    print("\nmedian |error| over all cuts in %, by study\n")
    print("| study | predictions | " + " | ".join(predicted) + " |")
    print("|---|---|" + "---|" * len(predicted))
    for study in dict.fromkeys(task.study for task in found):
        mine = [i for i, task in enumerate(found) if task.study == study]
        sizes = [
            [abs(peaks[i].x_max / found[i].x_max - 1) for i in mine] for peaks in predicted.values()
        ]
        medians = [np.quantile(errors, 0.5, method="higher") for errors in sizes]
        told = " | ".join(f"{100 * median:.0f}" for median in medians)
        print(f"| {study} | {len(mine)} | {told} |")
