"""Real loads that `bench/real_servers.py` recorded, and predictions of their peak.

A recording has the throughput of closed loops by their number of threads, the agent's intervals
below each share of the best, and the peaks that were measured in the same minutes.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource, concurrency
from agent.window.intervals import Interval, Window
from agent.window.resource_utilisation import (
    AGENT_CONNECTIONS,
    CPU,
    CPUS,
    OPEN_CONNECTIONS,
    SERVER_CPU,
    SERVER_CPUS,
    SERVER_SHARE_OF_CPU,
)
from models.capacity.assess import assess_capacity
from models.trust import Trust
from models.usl.fit import FitMethod, fit

MAX_CONNECTIONS, OLDER_MAX_CONNECTIONS = 500, 300
"""Of the recorded servers, and of those of the oldest recordings."""
AT_BEST = "at the best threads"
"""Before an estimator's name: judged by the best number of threads of a closed loop."""
FAR_OFF = 15.0
"""Per cent: nothing that is trusted may be off by more."""
MARKED = 25.0
"""Per cent: what is trusted and off by more is marked in the tables."""
TRIED = 3
"""So many numbers of threads are tried for the peak again and again: the clients' connections, and
the best of the ladder."""
MOMENTS_BEFORE = 2 * TRIED
"""So many of the peaks before an overload count for it: those of a minute and a half."""
OF_CSV = (CPU, CPUS, SERVER_SHARE_OF_CPU, SERVER_CPU, SERVER_CPUS)
"""The columns of resources in a CSV of samples: no connections, log writes or idle entries."""


class Level(NamedTuple):
    """One step of the ladder."""

    throughput: float
    """Queries/s."""
    processors: float
    """How many of them the server used."""


class PeakPrediction(NamedTuple):
    """An estimator's prediction of the peak, queries/s."""

    estimator: str
    value: float | None
    note: str
    """Its trust, or why it says nothing."""
    lower: float | None = None
    upper: float | None = None
    """Of the 90 % interval; None: no such bound is known."""


class EstimatorDeviation(NamedTuple):
    """The error of an estimator from the intervals below a cap."""

    cap: float
    estimator: str
    error: float | None
    """Per cent; None: it said nothing."""
    trusted: bool
    width: float | None = None
    """The 95 % quantile over the 5 % quantile, where it is known."""
    holds: bool | None = None
    """Whether the 90 % interval holds the peak: the mean of those minutes."""
    reaches: bool | None = None
    """Whether it reaches the peak of some moment of them."""

    @property
    def cell(self) -> str:
        """Format it for the table."""
        if self.error is None:
            return "–"
        return f"{self.error:+.0f}" + "!" * (self.trusted and abs(self.error) > MARKED)


def saved(file: Path) -> dict[str, Any]:
    """Read what `bench/real_servers.py --save` has written."""
    seen: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return seen


def ladder_of(seen: dict[str, Any]) -> dict[int, Level]:
    """Look up the level of each number of threads of the closed loop."""
    return {int(n): Level(*level) for n, level in seen["truth"].items()}


def best_threads(truth: dict[int, Level]) -> list[int]:
    """Order the numbers of threads by their throughput, the best first; those that are tried."""
    return sorted(truth, key=lambda n: -truth[n].throughput)[:TRIED]


def replay(seen: dict[str, Any], *, of_csv: bool = False) -> Iterator[EstimatorDeviation]:
    """Print the truth and each estimator's prediction at each level, and yield their deviations.

    `of_csv`: from what a CSV of samples has, and no more.
    """
    truth = ladder_of(seen)
    print(f"\n{seen['name']}, queries/s and processors used by threads of the closed loop:")
    print(", ".join(f"{n}: {x:,.0f} ({used:.0%})" for n, (x, used) in truth.items()))
    before: list[tuple[int, float]] = []
    for part in levels_of(seen):
        window = seen_below(seen, part, of_csv=of_csv)
        best = true_peak(moments_of(seen, part))[0]
        peak, least, most = clients_peak(seen, part)
        if before:
            drift = 100 * (true_peak(before)[0] / best - 1)
            yield EstimatorDeviation(
                part["cap"], "the peak measured one level before", drift, False
            )
        before = part["peaks"]
        print(f"\n  seen up to {part['cap']:.0%} of the peak, {len(window)} intervals")
        print(f"  clients could get {peak:,.0f} queries/s, {least:,.0f} to {most:,.0f} at moments;")
        print(f"  the best number of threads {best:,.0f}")
        for name, value, note, lower, upper in predictions(window):
            error = None if value is None else 100 * (value / peak - 1)
            number = "-" if value is None else f"{value:,.0f}"
            print(f"    {name:<34} {number:>10} {percent(error):>10}  {note}")
            trusted = note.startswith(Trust.TRUSTED)
            if lower is None:
                yield EstimatorDeviation(part["cap"], name, error, trusted)
                continue
            if value is not None:
                off_best = 100 * (value / best - 1)
                yield EstimatorDeviation(part["cap"], f"{AT_BEST}: {name}", off_best, trusted)
            most_said = np.inf if upper is None else upper
            holds, reaches = lower < peak < most_said, lower < most and most_said > least
            width = most_said / max(lower, 1e-9)
            yield EstimatorDeviation(part["cap"], name, error, trusted, width, holds, reaches)


def levels_of(seen: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the highest loads in their order, without those that have no intervals."""
    known = 0
    for part in seen["caps"]:
        if part["intervals"] != known:
            yield part
        known = part["intervals"]


def clients_peak(seen: dict[str, Any], part: dict[str, Any]) -> tuple[float, float, float]:
    """Compute the throughput of the clients' connections, and its range over the moments.

    Past the end it is at least what was served there all the time.
    """
    moments = moments_of(seen, part)
    share = _share_of(int(seen.get("connections", 64)), seen, moments)
    peak, least, most = (share * each for each in true_peak(moments))
    if part["cap"] <= 1:
        return peak, least, most
    served = _served_past_the_end(seen, part)
    return max(peak, served), least, max(most, served)


def peak_variation(seen: dict[str, Any]) -> float:
    """Divide the greatest by the least peak of all levels: how much the machine has changed."""
    peaks = [true_peak(moments_of(seen, part))[0] for part in levels_of(seen)]
    return max(peaks) / min(peaks)


def moments_of(seen: dict[str, Any], part: dict[str, Any]) -> list[tuple[int, float]]:
    """List the peaks that were measured in the same minutes.

    Past the end there are few, of three seconds each: those of the minute before belong to them.
    """
    own: list[tuple[int, float]] = part["peaks"]
    if part["cap"] <= 1:
        return own
    before = seen["caps"][seen["caps"].index(part) - 1]["peaks"]
    return [*before[-MOMENTS_BEFORE:], *own]


def _served_past_the_end(seen: dict[str, Any], part: dict[str, Any]) -> float:
    """Compute the median throughput of the intervals past the end, queries/s; 0 without any."""
    first = seen["caps"][seen["caps"].index(part) - 1]["intervals"]
    served = [interval_of(row).throughput for row in seen["intervals"][first : part["intervals"]]]
    return float(np.median(served)) if served else 0.0


def _share_of(
    connections: int, seen: dict[str, Any], moments: Sequence[tuple[int, float]]
) -> float:
    """Compute the throughput of so many connections as a share of the best threads'.

    From these minutes where they were measured, else from the ladder's levels about that number.
    """
    own = [x for n, x in moments if n == connections]
    if own and "connections" in seen:
        return min(float(np.mean(own)) / true_peak(moments)[0], 1.0)
    ladder = ladder_of(seen)
    nearest = min(max(ladder), connections)
    about = [level.throughput for n, level in ladder.items() if 0.7 < n / nearest < 1.6]
    best = [ladder[n].throughput for n in best_threads(ladder)]
    return min(float(np.mean(about) / np.mean(best)), 1.0)


def seen_below(seen: dict[str, Any], part: dict[str, Any], *, of_csv: bool = False) -> Window:
    """Make the window up to that cap: all columns of the agent, or those of a CSV of samples."""
    rows = [interval_of(row) for row in seen["intervals"][: part["intervals"]]]
    if of_csv:
        kept = [{name: r.resources[name] for name in OF_CSV if name in r.resources} for r in rows]
        rows = [row._replace(resources=used) for row, used in zip(rows, kept, strict=True)]
    return Window(rows)


def interval_of(row: dict[str, Any]) -> Interval:
    """Make an interval of a recording; what an older one lacks follows from how it was made.

    It has how many connections were open as a share of the server's setting only, and the oldest
    have no number of processors.
    """
    used = row["resources"]
    if OPEN_CONNECTIONS not in used and "connections" in used:
        most = MAX_CONNECTIONS if CPUS in used else OLDER_MAX_CONNECTIONS
        is_open = {OPEN_CONNECTIONS: used["connections"] * most - AGENT_CONNECTIONS}
        used = {CPUS: 2.0, SERVER_CPUS: 1.0, **used, **is_open}
    return Interval(**{**row, "resources": used})


def true_peak(moments: Iterable[tuple[int, float]]) -> tuple[float, float, float]:
    """Compute the mean of the best number of threads, and the least and most of its moments."""
    by_threads: dict[int, list[float]] = {}
    for threads, x in moments:
        by_threads.setdefault(threads, []).append(x)
    best = max(by_threads.values(), key=lambda each: sum(each) / len(each))
    return sum(best) / len(best), min(best), max(best)


def percent(error: float | None) -> str:
    """Format an error."""
    return "" if error is None else f"{error:+.0f} %"


def predictions(window: Window) -> Iterator[PeakPrediction]:
    """Predict the peak with each estimator."""
    for source in ConcurrencySource:
        yield from of_source(window, source)


def of_source(window: Window, source: ConcurrencySource) -> Iterator[PeakPrediction]:
    """Predict by the capacity, the law alone, limits alone, and two methods of others."""
    seen = observations(window, source)
    capacity = assess_capacity(seen)
    note = f"{capacity.trust} by {capacity.limit}"
    yield PeakPrediction(
        f"capacity, {source}", capacity.value, note, capacity.lower or 0.0, capacity.upper
    )
    resource_limit = min(
        (w.x_max for w in capacity.resource_limits if w.x_max is not None), default=None
    )
    yield PeakPrediction(f"limits alone, {source}", resource_limit, "")
    law = capacity.usl
    doubts = capacity.usl_finding.check.sentence if capacity.usl_finding else ""
    peak = law.x_max if law else None
    yield PeakPrediction(f"USL alone, {source}", peak, law.trust if law else doubts)
    n, x = concurrency(window, source), window["throughput"]
    loaded = np.isfinite(n) & (n >= 0.5) & (x > 0)
    for method in (FitMethod.LSQ, FitMethod.LINEARISED):
        if np.count_nonzero(loaded) < 3:
            yield PeakPrediction(f"{method}, {source}", None, "too few loaded intervals")
        else:
            other = fit(n[loaded], x[loaded], method)
            yield PeakPrediction(f"{method}, {source}", other.x_max, other.trust)
