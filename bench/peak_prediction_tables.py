"""The tables of `usl_peak_prediction.py --published`: every estimator on the published curves."""

from collections.abc import Callable
from math import exp

import numpy as np

from models.arrays import Array
from models.usl.peak_posterior_grid import TABLE_PRIOR
from testbed.published.curves import CURVES
from testbed.published.held_out import (
    CUTS,
    GROUPINGS,
    PredictionTask,
    held_out,
    predict_with_each,
    scores,
    tasks,
)
from testbed.published.peak_estimators import (
    PredictedPeak,
    bounded_least_squares,
    least_squares,
    ours,
    relative_prior,
    white_paper,
)

ESTIMATORS: dict[str, Callable[[Array, Array], PredictedPeak]] = {
    "white paper, linearised": white_paper,
    "least squares (usl4j)": least_squares,
    "bounded least squares (R usl)": bounded_least_squares,
    "prior relative to the load seen": relative_prior,
    "fit": ours,
}


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


def print_chosen(found: list[PredictionTask]) -> dict[str, list[PredictedPeak]]:
    """Print the constants that were chosen without each group; return the predictions by them."""
    by_prior, predicted = predict_with_each(found), {}
    for name, group in GROUPINGS.items():
        predicted[f"fit, {name} held out"], chosen = held_out(found, group, by_prior)
        print(f"\nconstants chosen without the {name}: mean, deviation, nearness\n")
        for held, prior in (chosen | {"the models' own": TABLE_PRIOR}).items():
            print(f"- {held}: {exp(prior.mean):.1f}, {prior.deviation}, {prior.nearness}")
    return predicted


def print_cuts(found: list[PredictionTask], predicted: dict[str, list[PredictedPeak]]) -> None:
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


def print_studies(found: list[PredictionTask], predicted: dict[str, list[PredictedPeak]]) -> None:
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
