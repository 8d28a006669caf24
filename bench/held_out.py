"""Published curves, cut below their peak: predictions judged on studies that they know nothing of.

The truth is the greatest throughput that a curve shows. It is cut at a share of the load where
that was seen: points with N ≤ share · N(best). Most ladders double, so that 0.6 and 0.8 both leave
what was seen up to half of the load, and 0.4 what was seen up to a quarter of it; where fewer than
three points are left, there is no prediction.

Constants are chosen for each group with the other groups' curves alone, once by study and once by
author. A study is an author and a server: curves of one server resemble each other, and none is on
both sides. Two studies of one author may share a server or a habit; by author, these are on one
side too.
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

from published_curves import CURVES, Curve

Grouping = Callable[[Curve], str]

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
GROUPINGS: dict[str, Grouping] = {
    "study": lambda curve: curve.study,
    "author": lambda curve: curve.author,
}
MEANS, DEVIATIONS, NEARNESSES = (2.0, 2.5, 3.0, 3.5), (0.7, 1.0), (1.5, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class Task:
    """The points of a curve up to a share of its peak's load."""

    curve: Curve
    cut: float
    n: Array
    x: Array

    @property
    def x_max(self) -> float:
        """The greatest throughput of the whole curve."""
        return self.curve.x_max


@dataclass(frozen=True, eq=False)
class Score:
    """How the predictions from one cut are; errors relative to the truth."""

    median: float
    far: float
    signed: float
    covered: float | None
    trusted: float
    wrong: int
    worst: float | None
    """The greatest error of a trusted prediction; None where none is trusted."""

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
            worst=float(size[trusted].max()) if trusted.any() else None,
        )

    def __str__(self) -> str:
        """The cells of a row of the table."""
        errors = f"{100 * self.median:.0f} | {100 * self.far:.0f} | {100 * self.signed:+.0f}"
        if self.covered is None:
            return f"{errors} | – | – | –"
        worst = "–" if self.worst is None else f"{100 * self.worst:.0f} ({self.wrong})"
        return f"{errors} | {100 * self.covered:.0f} | {100 * self.trusted:.0f} | {worst}"


def tasks() -> list[Task]:
    """Cut every published curve at every share that leaves three points."""
    return [
        Task(curve, cut, n, x)
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


def held_out(
    found: list[Task], group: Grouping, predicted: dict[PeakPrior, list[Peak]]
) -> tuple[list[Peak], dict[str, PeakPrior]]:
    """Predict each group with the prior that does best on the others; return the priors too."""
    groups = dict.fromkeys(group(task.curve) for task in found)
    chosen = {
        held: min(predicted, key=lambda prior: _loss(found, predicted[prior], group, held))
        for held in groups
    }
    return [predicted[chosen[group(task.curve)]][i] for i, task in enumerate(found)], chosen


def predict_with_each(found: list[Task]) -> dict[PeakPrior, list[Peak]]:
    """Predict with every prior that there is to choose from."""
    priors = [
        PeakPrior(log(mean), deviation, nearness)
        for mean, deviation, nearness in product(MEANS, DEVIATIONS, NEARNESSES)
    ]
    return {prior: predict_with(prior, found) for prior in priors}


def predict_with(prior: PeakPrior, found: list[Task]) -> list[Peak]:
    """Predict with this prior instead of the models' own."""
    return [peak_of(fit_map(task.n, task.x, prior=prior)) for task in found]


def _loss(found: list[Task], peaks: list[Peak], group: Grouping, held: str) -> float:
    """Mean |ln(prediction/truth)|, at most 1 each, of the other groups' curves, and its bias.

    Of each cut alike: the size of the median logarithm is added to the mean.
    """
    logs: dict[float, list[float]] = {cut: [] for cut in CUTS}
    for task, peak in zip(found, peaks, strict=True):
        if group(task.curve) != held:
            logs[task.cut].append(log(peak.x_max / task.x_max))
    errors = [np.array(of_cut) for of_cut in logs.values()]
    return float(np.mean([np.minimum(abs(e), 1).mean() + abs(np.median(e)) for e in errors]))


def print_published(*, choose: bool) -> None:
    """Print a table of all estimators for each cut, and the studies' own scores."""
    found = tasks()
    studies = {task.curve.study for task in found}
    print(f"{len(CURVES)} published curves, {len(found)} predictions, {len(studies)} studies")
    predicted = {
        name: [estimate(task.n, task.x) for task in found] for name, estimate in ESTIMATORS.items()
    }
    choices = print_chosen(found) if choose else {}
    print_cuts(found, predicted | choices)
    print_studies(found, predicted)


def print_chosen(found: list[Task]) -> dict[str, list[Peak]]:
    """Print the constants that were chosen without each group; return the predictions by them."""
    by_prior, predicted = predict_with_each(found), {}
    for name, group in GROUPINGS.items():
        predicted[f"fit, {name} held out"], chosen = held_out(found, group, by_prior)
        print(f"\nconstants chosen without the {name}: mean, deviation, nearness\n")
        for held, prior in (chosen | {"the models' own": TABLE}).items():
            print(f"- {held}: {exp(prior.mean):.1f}, {prior.deviation}, {prior.nearness}")
    return predicted


def print_cuts(found: list[Task], predicted: dict[str, list[Peak]]) -> None:
    """Print each cut's table, and the share of all predictions that are trusted."""
    for i, cut in enumerate(CUTS):
        print(f"\npoints up to {cut} of the peak's load, in %\n")
        print("| estimator | median | 90th percentile | signed | held | trusted | worst |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for name, peaks in predicted.items():
            print(f"| {name} | {scores(found, peaks)[i]} |")
    print(
        "\n|error| of Xmax: median and 90th percentile, and the signed error's median; truths that"
    )
    print("the 90 % interval holds; predictions that are trusted, and the worst error of one (in")
    print("brackets how many are off by more than 15 %). Trusted at all cuts together, in %:\n")
    for name, peaks in predicted.items():
        print(f"- {name}: {100 * np.mean([peak.trusted for peak in peaks]):.0f}")


def print_studies(found: list[Task], predicted: dict[str, list[Peak]]) -> None:
    """Print the median |error| over all cuts, by study."""
    print("\nmedian |error| over all cuts in %, by study\n")
    print("| study | predictions | " + " | ".join(predicted) + " |")
    print("|---|---|" + "---|" * len(predicted))
    for study in dict.fromkeys(task.curve.study for task in found):
        mine = [i for i, task in enumerate(found) if task.curve.study == study]
        sizes = [
            [abs(peaks[i].x_max / found[i].x_max - 1) for i in mine] for peaks in predicted.values()
        ]
        medians = [np.quantile(errors, 0.5, method="higher") for errors in sizes]
        cells = " | ".join(f"{100 * median:.0f}" for median in medians)
        print(f"| {study} | {len(mine)} | {cells} |")
