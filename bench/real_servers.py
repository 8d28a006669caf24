"""Predict a real server's capacity from a load far below it, and compare with the truth.

    python bench/real_servers.py [--flavour mysql|mariadb] [--workload hot] [--level 15] [--step 12]
                                 [--interval 4] [--moment 3] [--longer 3] [--save FOLDER]
    python bench/real_servers.py --replay FILE... [--of-csv]

First a closed loop finds where the true peak is: sysbench with more and more threads, each for
`--level` seconds. Then an open loop whose rate changes every `--step` seconds stays below 30, then
50, 70 and 90 % of that peak, while the agent watches. Machines of a cloud become slower and faster
within minutes: so the peak is measured again before each step, in turn by an open loop above its
capacity over the clients' connections and by closed loops at the best numbers of threads, none of
which the agent's window holds. After each share, every estimator predicts the peak from what was
seen up to then; the truth is that of the same minutes.
It is what an open loop over the clients' connections gets where more arrive than it serves: about
what as many threads of a closed loop get, and less where clients share the server's processors. The
more connections take turns, the colder each finds the caches, by up to a quarter of the throughput.
The capacity is judged by the best number of threads too.
At last a closed loop of four times the best number of threads drives the server past its peak.
The server has the machine's first processor to itself and sysbench the second, as if it ran
elsewhere, both ahead of all other work where we are root. `--save` keeps what was seen, and
`--replay` predicts from it again. The last table is of all workloads together.
"""

import argparse
import gzip
import itertools
import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sysbench_loads import closed_loop, ladder, loaded_server, open_loop, overload, sysbench
from sysbench_workloads import CLASSIC, ZOO, Arrivals, Workload

from agent.demo.private_server import Flavour, PrivateServer
from agent.window.intervals import Interval, Window
from testbed.real.agent_in_process import watched, window_of
from testbed.recorded.peak_predictions import (
    FAR_OFF,
    TRIED,
    EstimatorDeviation,
    best_threads,
    peak_variation,
    replay,
    saved,
    true_peak,
)

ROOT = Path(__file__).resolve().parent.parent
CAPS = (0.3, 0.5, 0.7, 0.9)
SHARES = (0.2, 0.6, 0.4, 0.9, 0.3, 0.75, 0.5, 1.0)  # of the cap, a step each
LONGER = 3
"""So many times as long below the last cap: trust takes eight intervals of 80 % or more."""
PAST = 4
"""Threads past the peak, in multiples of the best number."""
PAST_INTERVALS = 10
LEVELS = (*CAPS, PAST)
SLACK = 0.1
STEADY = 1.1
"""The greatest peak of a recording over its least: below it, the machine has hardly changed."""
OVERLOAD = 1.5
"""Arrivals, in multiples of the best throughput. sysbench ends where 100,000 of them wait."""


def main() -> None:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), action="append")
    parser.add_argument("--level", type=float, default=15.0, help="of the ladder, seconds each")
    parser.add_argument("--step", type=float, default=12.0, help="of the open loop, seconds each")
    parser.add_argument("--interval", type=float, default=4.0, help="of the agent, seconds")
    parser.add_argument("--moment", type=float, default=3.0, help="of the peak's measurements")
    words = "how often the steps up to 90 %% are played: trust takes minutes there"
    parser.add_argument("--longer", type=int, default=LONGER, help=words)
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    words = "replay only what a CSV of samples has: no connections, log writes, idle entries"
    parser.add_argument("--of-csv", action="store_true", help=words)
    args = parser.parse_args()
    said: list[EstimatorDeviation] = []
    steady: list[EstimatorDeviation] = []
    for seen in map(saved, args.replay or []):
        found = list(replay(seen, of_csv=args.of_csv))
        said += found
        steady += found if peak_variation(seen) < STEADY else []
    for workload in args.workload or ([] if args.replay else CLASSIC):
        pace = Pace(args.level, args.step, args.interval, args.moment, args.longer)
        seen = run(args.flavour, workload, pace)
        if args.save:
            file = args.save / f"{args.flavour}-{workload}.json.gz"
            file.write_bytes(gzip.compress(json.dumps(seen).encode(), mtime=0))
        said += replay(seen)
    summarise(said)
    if steady:
        runs = max(Counter((one.estimator, one.cap) for one in steady).values())
        print(f"\nsize of the errors in {runs} whose peak varied by less than {STEADY - 1:.0%}")
        print_rows(steady, spread)


class Pace(NamedTuple):
    """How long what takes, s."""

    level: float
    """A level of the ladder."""
    step: float
    """A step of the open loop."""
    interval: float
    """The agent's."""
    moment: float
    """Of the closed loop that measures the peak before each step."""
    longer: int = LONGER
    """So many times the steps below the last cap are played."""


def run(flavour: Flavour, name: str, pace: Pace) -> dict[str, Any]:
    """Record one workload on a server of its own: the ladder, below each cap, past the peak."""
    with loaded_server(flavour, name) as (server, workload, title):
        per_event, truth = ladder(server, workload, pace.level)
        best = best_threads(truth)
        tried = list(dict.fromkeys([workload.connections, *best]))[:TRIED]
        moments = PeakMeasurements(server, workload, pace, tried, per_event)
        moments.recent.extend((n, truth[n].throughput) for n in tried if n in truth)
        caps: list[dict[str, Any]] = []
        with watched(server, pace.interval) as agent:
            for cap in CAPS:
                found = []
                for share in steps_below(cap, workload, pace.longer):
                    found.append(moments.measure())
                    rate = cap * share * true_peak(moments.recent)[0] / per_event
                    open_loop(server, workload, pace.step, rate)
                rows = moments.others_of(window_of(agent))
                caps.append({"cap": cap, "intervals": len(rows), "peaks": found})
            peaks = [moments.measure() for _ in tried]
            sysbench(server, workload, PAST_INTERVALS * pace.interval, PAST * best[0])
            rows = moments.others_of(window_of(agent))
            peaks += [moments.measure() for _ in tried]
            caps.append({"cap": PAST, "intervals": len(rows), "peaks": peaks})
    measured = {"truth": truth, "connections": workload.connections}
    return {"name": title, "caps": caps, "intervals": rows, **measured}


def steps_below(cap: float, workload: Workload, longer: int) -> list[float]:
    """Shares of a cap, one for each step."""
    shares = SHARES * (longer if cap == CAPS[-1] else 1)
    return sorted(shares) if workload.arrivals is Arrivals.RISING else list(shares)


class PeakMeasurements:
    """Measures the peak again and again, and which intervals that touched."""

    def __init__(
        self,
        server: PrivateServer,
        workload: Workload,
        pace: Pace,
        threads: Sequence[int],
        per_event: float,
    ) -> None:
        self.recent: deque[tuple[int, float]] = deque(maxlen=2 * TRIED)
        self._server = server
        self._workload = workload
        self._pace = pace
        self._tried = itertools.cycle(threads)
        self._per_event = per_event
        self._beside: list[tuple[float, float]] = []

    def measure(self) -> tuple[int, float]:
        """Measure the peak's throughput, queries/s; answers the number of threads too.

        Of the clients' connections by an open loop with more arrivals than are served, else by a
        closed loop.
        """
        threads, start = next(self._tried), time.monotonic()
        seconds = self._pace.moment
        if threads == self._workload.connections:
            rate = OVERLOAD * true_peak(self.recent)[0] / self._per_event
            level = overload(self._server, self._workload, seconds, rate)
        else:
            _, level = closed_loop(self._server, self._workload, seconds, threads)
        found = threads, level.throughput
        self._beside.append((start, until_next_interval(self._pace.interval)))
        self.recent.append(found)
        return found

    def others_of(self, window: Window) -> list[dict[str, Any]]:
        """Return the intervals in which no peak was measured."""
        return [row._asdict() for row in window.as_intervals if is_of(row, self._beside)]


def until_next_interval(interval: float) -> float:
    """Wait for the end of the agent's interval; answers when it was."""
    end = math.ceil(time.monotonic() / interval) * interval
    time.sleep(max(end - time.monotonic(), 0.0))
    return end


def is_of(row: Interval, beside: Iterable[tuple[float, float]]) -> bool:
    """Return whether an interval has nothing of the moments in which the peak was measured."""
    return all(row.end <= start or row.end - row.seconds >= end - SLACK for start, end in beside)


def summarise(said: list[EstimatorDeviation]) -> None:
    """Print each estimator's errors at each level, those that were trusted and wrong marked."""
    print("\nerrors of all workloads, below 30, 50, 70 and 90 % of the peak and past it")
    print("! trusted and off by more than a quarter")
    print_rows(said, lambda some: " ".join(one.cell for one in some))
    print("\nsize of the errors in %, median/90th percentile (signed median); what is silent is ∞")
    print_rows(said, spread)
    print("\n90 % intervals that hold the peak (that of some moment); their median width; trusted;")
    print("of them off by 15 %")
    vague = {one.estimator for one in said if one.holds is None}
    print_rows([one for one in said if one.estimator not in vague], certainty)


def print_rows(
    said: list[EstimatorDeviation], text: Callable[[list[EstimatorDeviation]], str]
) -> None:
    """Print a row for each estimator, with the text of its deviations at each level."""
    for name in dict.fromkeys(one.estimator for one in said):
        of_it = [one for one in said if one.estimator == name]
        levels = [[one for one in of_it if one.cap == cap] for cap in LEVELS]
        print(f"  {name:<34} " + " | ".join(f"{text(some):<20}" for some in levels))


def spread(some: list[EstimatorDeviation]) -> str:
    """Summarise the errors of all workloads at one level."""
    if not some:
        return "–"
    errors = np.array([np.inf if one.error is None else one.error for one in some])
    middle, far = np.median(np.abs(errors)), np.quantile(np.abs(errors), 0.9, method="higher")
    return f"{middle:.0f}/{far:.0f} ({np.median(errors):+.0f})".replace("inf", "∞")


def certainty(some: list[EstimatorDeviation]) -> str:
    """Summarise how sure it was of all workloads at one level, and how rightly."""
    if not some:
        return "–"
    trusted = [one for one in some if one.trusted]
    wrong = sum(abs(one.error or 0.0) > FAR_OFF for one in trusted)
    held, reached = sum(bool(one.holds) for one in some), sum(bool(one.reaches) for one in some)
    width = np.median([one.width or np.inf for one in some])
    return f"{held} ({reached}) of {len(some)}; {width:.2f}; {len(trusted)}; {wrong}"


if __name__ == "__main__":
    main()
