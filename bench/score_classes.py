"""Score `attribute` on recordings whose CPU per class is known; see `record_classes.py`.

    python bench/score_classes.py FOLDER

Each recording is divided with its digest texts and without, and its second half predicted from the
first; published `wlr` stands beside. Scores are Σ|share − true share|: 0 is the same, 2 nothing
alike.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent.csv_input.class_file import read_classes
from agent.csv_input.host_file import join_host_file, read_host
from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.resource_division import attribute
from models.attribution.result import (
    Attribution,
    DivisionMethod,
    HostUse,
    PredictionError,
    disagreement,
)

CHECKED = ("SLEEP", "GET_LOCK")
"""Classes that only wait, by what their texts call."""


def main() -> None:
    """Print a row for each recording of the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    print("| recording | CPU, busy | ", end="")
    print("wlr | texts | no texts | worst waiter, no texts (truth) | second half | care |")
    print("|---|---|---|---|---|---|---|---|")
    for host in sorted(args.folder.glob("*_host.csv*")):
        path = host.with_name(host.name.replace("_host.csv", ".csv"))
        found = join_host_file(read_classes(str(path)), file := read_host(str(host)))
        assert found.y is not None
        assert found.truth is not None
        use = file.worst_minute_use_of(np.arange(len(file.at)))
        score(path.name.split(".")[0], found.intervals, found.y, found.truth, use)


def score(name: str, intervals: ClassIntervals, y: Array, truth: Array, host: HostUse) -> None:
    """Print the row of one recording."""
    target = DividedUse(y, is_cpu_seconds=True)
    blind = replace(intervals, texts=None)
    used = truth.sum(axis=0)
    with_texts, without = (attribute(t, target, host=host) for t in (intervals, blind))
    wlr = attribute(intervals, target, DivisionMethod.WLR, host=host)
    errors = [disagreement(found.totals, used) or 0.0 for found in (wlr, with_texts, without)]
    sleepers = np.array([any(f in (t or "") for f in CHECKED) for t in intervals.texts or ()])
    blamed = np.where(sleepers, without.totals / without.totals.sum(), 0.0)
    worst = int(np.argmax(blamed))
    true = used[worst] / used.sum()
    care = ", ".join(reason.value for reason in with_texts.reasons)
    cells = [f"{y.mean():.2f}, {host.busy or 0:.0%}", *(f"{error:.3f}" for error in errors)]
    cells += [f"{blamed[worst]:.2%} ({true:.2%})", f"{half(intervals, target):.1%}", care]
    print(f"| {name} | {' | '.join(cells)} |")


def half(intervals: ClassIntervals, target: DividedUse) -> float:
    """Predict the second half from the first: the mean error of an interval, as a part of it."""
    middle = len(intervals) // 2
    first, second = slice(None, middle), slice(middle, None)
    found: Attribution = attribute(intervals.at(first), replace(target, y=target.y[first]))
    return (
        PredictionError.of(target.y[second], found.predictor.predict(intervals.at(second))).mape
        or np.nan
    )


if __name__ == "__main__":
    main()
