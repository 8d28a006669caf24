"""Predict a real server's capacity from a load far below it, and compare with the truth.

    python bench/real_servers.py [--flavour mysql|mariadb] [--workload hot] [--level 15] [--step 12]
                                 [--interval 4] [--moment 3] [--save FOLDER]
    python bench/real_servers.py --replay FILE...

First a closed loop finds where the true peak is: sysbench with more and more threads, each for
`--level` seconds. Then an open loop whose rate changes every `--step` seconds stays below 30, then
50, 70 and 90 % of that peak, while the agent watches. Machines of a cloud become slower and faster
within minutes: so the peak is measured again before each step, by a closed loop at the best three
numbers of threads in turn, which the agent's window does not hold. After each share, every
estimator predicts the peak from what was seen up to then; the truth is that of the same minutes.
It is what as many threads as the clients have connections get, which is what an open loop over
these connections ends at: the more connections take turns, the colder each finds the caches, by up
to a quarter of the throughput. The capacity is judged by the best number of threads too.
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
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sysbench import MAX_CONNECTIONS, Level, ladder, loaded_server, open_loop, questions, sysbench
from workloads import CLASSIC, ZOO, Arrivals, Workload

from agent.config.settings import Config
from agent.demo.server import Flavour, PrivateServer
from agent.pipeline import observations
from agent.service.daemon import Agent
from agent.window.concurrency import Source, concurrency
from agent.window.intervals import Interval, Window
from agent.window.utilisation import CPUS, OPEN_CONNECTIONS, SERVER_CPUS, THE_AGENTS
from models.capacity.assess import assess_capacity
from models.trust import Trust
from models.usl.fit import Method, fit

ROOT = Path(__file__).resolve().parent.parent
WRONG = 25.0  # per cent
AT_BEST = "at the best threads"
"""Before an estimator's name: judged by the best number of threads of a closed loop."""
FAR_OFF = 15.0
"""Per cent: nothing that is trusted may be off by more."""
CAPS = (0.3, 0.5, 0.7, 0.9)
SHARES = (0.2, 0.6, 0.4, 0.9, 0.3, 0.75, 0.5, 1.0)  # of the cap, a step each
LONGER = 3
"""So many times as long below the last cap: trust takes twelve intervals near the capacity."""
TRIED = 3
"""So many numbers of threads, the best of the ladder, are tried for the peak again and again."""
PAST = 4
"""Threads past the peak, in multiples of the best number."""
PAST_INTERVALS = 10
SLACK = 0.1
OLDER_MAX_CONNECTIONS = 300
"""Of the servers of the oldest recordings."""


class Prediction(NamedTuple):
    """What an estimator says of the peak, queries/s."""

    estimator: str
    value: float | None
    note: str
    """Its trust, or why it says nothing."""
    lower: float | None = None
    upper: float | None = None
    """Of the 90 % interval; None: no such bound is known."""


class Said(NamedTuple):
    """How far an estimator was off with what was seen below a cap."""

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
        """For the table."""
        if self.error is None:
            return "–"
        return f"{self.error:+.0f}" + "!" * (self.trusted and abs(self.error) > WRONG)


def main() -> None:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), action="append")
    parser.add_argument("--level", type=float, default=15.0, help="of the ladder, seconds each")
    parser.add_argument("--step", type=float, default=12.0, help="of the open loop, seconds each")
    parser.add_argument("--interval", type=float, default=4.0, help="of the agent, seconds")
    parser.add_argument("--moment", type=float, default=3.0, help="of the peak's measurements")
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    args = parser.parse_args()
    said: list[Said] = []
    for file in args.replay or []:
        said += replay(saved(file))
    for workload in args.workload or ([] if args.replay else CLASSIC):
        pace = Pace(args.level, args.step, args.interval, args.moment)
        seen = run(args.flavour, workload, pace)
        if args.save:
            file = args.save / f"{args.flavour}-{workload}.json.gz"
            file.write_bytes(gzip.compress(json.dumps(seen).encode(), mtime=0))
        said += replay(seen)
    summarise(said)


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


def run(flavour: Flavour, name: str, pace: Pace) -> dict[str, Any]:
    """Record one workload on a server of its own: the ladder, below each cap, past the peak."""
    with loaded_server(flavour, name) as (server, workload, title):
        per_event, truth = ladder(server, workload, pace.level)
        best = best_threads(truth)
        tried = list(dict.fromkeys([workload.connections, *best]))[:TRIED]
        moments = Moments(server, workload, pace, tried)
        moments.recent.extend((n, truth[n].throughput) for n in tried if n in truth)
        caps: list[dict[str, Any]] = []
        with watched(server, pace.interval) as agent:
            for cap in CAPS:
                found = []
                for share in steps_below(cap, workload):
                    found.append(moments.measure())
                    rate = cap * share * true_peak(moments.recent)[0] / per_event
                    open_loop(server, workload, pace.step, rate)
                rows = moments.others_of(window_of(agent))
                caps.append({"cap": cap, "intervals": len(rows), "peaks": found})
            peaks = [moments.measure() for _ in tried]
            sysbench(server, workload, PAST_INTERVALS * pace.interval, PAST * best[0])
            rows = moments.others_of(window_of(agent))
            caps.append({"cap": PAST, "intervals": len(rows), "peaks": peaks})
    measured = {"truth": truth, "connections": workload.connections}
    return {"name": title, "caps": caps, "intervals": rows, **measured}


def best_threads(truth: dict[int, Level]) -> list[int]:
    """Order the numbers of threads by their throughput, the best first; those that are tried."""
    return sorted(truth, key=lambda n: -truth[n].throughput)[:TRIED]


def steps_below(cap: float, workload: Workload) -> list[float]:
    """Shares of a cap, one for each step."""
    shares = SHARES * (LONGER if cap == CAPS[-1] else 1)
    return sorted(shares) if workload.arrivals is Arrivals.RISING else list(shares)


class Moments:
    """Measures the peak again and again, and which intervals that touched."""

    def __init__(
        self, server: PrivateServer, workload: Workload, pace: Pace, threads: Sequence[int]
    ) -> None:
        self.recent: deque[tuple[int, float]] = deque(maxlen=2 * TRIED)
        self._server = server
        self._workload = workload
        self._pace = pace
        self._tried = itertools.cycle(threads)
        self._beside: list[tuple[float, float]] = []

    def measure(self) -> tuple[int, float]:
        """Measure a closed loop's throughput, queries/s; answers its number of threads too."""
        threads, start = next(self._tried), time.monotonic()
        before = questions(self._server)
        sysbench(self._server, self._workload, self._pace.moment, threads)
        found = threads, (questions(self._server) - before) / (time.monotonic() - start)
        self._beside.append((start, until_next_interval(self._pace.interval)))
        self.recent.append(found)
        return found

    def others_of(self, window: Window) -> list[dict[str, Any]]:
        """Return the intervals in which no peak was measured."""
        return [row._asdict() for row in window.rows if is_of(row, self._beside)]


def until_next_interval(interval: float) -> float:
    """Wait for the end of the agent's interval; answers when it was."""
    end = math.ceil(time.monotonic() / interval) * interval
    time.sleep(max(end - time.monotonic(), 0.0))
    return end


def is_of(row: Interval, beside: Iterable[tuple[float, float]]) -> bool:
    """Whether an interval has nothing of the moments in which the peak was measured."""
    return all(row.end <= start or row.end - row.seconds >= end - SLACK for start, end in beside)


def saved(file: Path) -> dict[str, Any]:
    """Read what `run` answered and main saved."""
    seen: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return seen


def replay(seen: dict[str, Any]) -> Iterator[Said]:
    """Print the truth and what each estimator makes of what was seen, and answer it."""
    truth = {n: Level(*level) for n, level in seen["truth"].items()}
    print(f"\n{seen['name']}, queries/s and processors used by threads of the closed loop:")
    print(", ".join(f"{n}: {x:,.0f} ({used:.0%})" for n, (x, used) in truth.items()))
    before: list[tuple[int, float]] = []
    for part in seen["caps"]:
        window = seen_below(seen, part)
        best = true_peak(part["peaks"])[0]
        peak, least, most = clients_peak(seen, part["peaks"])
        if before:
            drift = 100 * (true_peak(before)[0] / best - 1)
            yield Said(part["cap"], "the peak measured one level before", drift, False)
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
                yield Said(part["cap"], name, error, trusted)
                continue
            if value is not None:
                off_best = 100 * (value / best - 1)
                yield Said(part["cap"], f"{AT_BEST}: {name}", off_best, trusted)
            most_said = np.inf if upper is None else upper
            holds, reaches = lower < peak < most_said, lower < most and most_said > least
            width = most_said / max(lower, 1e-9)
            yield Said(part["cap"], name, error, trusted, width, holds, reaches)


def clients_peak(
    seen: dict[str, Any], moments: Sequence[tuple[int, float]]
) -> tuple[float, float, float]:
    """Compute what the clients' connections could get, and the least and most of its moments."""
    share = share_of_clients(seen, moments)
    peak, least, most = true_peak(moments)
    return share * peak, share * least, share * most


def share_of_clients(seen: dict[str, Any], moments: Sequence[tuple[int, float]]) -> float:
    """Compute the peak of the clients' connections as a share of that of the best threads.

    From these minutes where they were measured, else from the ladder's levels about that number.
    """
    connections = seen.get("connections", 64)
    own = [x for n, x in moments if n == connections]
    if own and "connections" in seen:
        return min(float(np.mean(own)) / true_peak(moments)[0], 1.0)
    ladder = {int(n): Level(*level) for n, level in seen["truth"].items()}
    about = [level.throughput for n, level in ladder.items() if 0.7 < n / connections < 1.6]
    best = [ladder[n].throughput for n in best_threads(ladder)]
    return min(float(np.mean(about) / np.mean(best)), 1.0)


def seen_below(seen: dict[str, Any], part: dict[str, Any]) -> Window:
    """What the agent had seen up to that cap."""
    return Window(interval_of(row) for row in seen["intervals"][: part["intervals"]])


def interval_of(row: dict[str, Any]) -> Interval:
    """Make an interval of a recording; what an older one lacks follows from how it was made.

    It has how many connections were open as a share of the server's setting only, and the oldest
    have no number of processors.
    """
    used = row["resources"]
    if OPEN_CONNECTIONS not in used and "connections" in used:
        most = MAX_CONNECTIONS if CPUS in used else OLDER_MAX_CONNECTIONS
        is_open = {OPEN_CONNECTIONS: used["connections"] * most - THE_AGENTS}
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
    """An error for people."""
    return "" if error is None else f"{error:+.0f} %"


def summarise(said: list[Said]) -> None:
    """Print each estimator's errors at each cap, those that were trusted and wrong marked."""
    print("\nerrors of all workloads; ! trusted and off by more than a quarter")
    names = list(dict.fromkeys(one.estimator for one in said))
    for name in names:
        cells = []
        for cap in CAPS:
            ours = [one for one in said if (one.estimator, one.cap) == (name, cap)]
            cells.append(" ".join(one.cell for one in ours))
        print(f"  {name:<34} " + " | ".join(f"{cell:<20}" for cell in cells))
    print("\nsize of the errors in %, median/90th percentile (signed median); what is silent is ∞")
    for name in names:
        levels = [[one for one in said if (one.estimator, one.cap) == (name, cap)] for cap in CAPS]
        print(f"  {name:<34} " + " | ".join(f"{spread(some):<20}" for some in levels))
    print("\n90 % intervals that hold the peak (that of some moment); their median width; trusted;")
    print("of them off by 15 %")
    for name in names:
        levels = [[one for one in said if (one.estimator, one.cap) == (name, cap)] for cap in CAPS]
        if all(one.holds is not None for some in levels for one in some):
            print(f"  {name:<34} " + " | ".join(f"{certainty(some):<20}" for some in levels))


def spread(some: list[Said]) -> str:
    """Summarise the errors of all workloads at one level."""
    if not some:
        return "–"
    errors = np.array([np.inf if one.error is None else one.error for one in some])
    middle, far = np.median(np.abs(errors)), np.quantile(np.abs(errors), 0.9, method="higher")
    return f"{middle:.0f}/{far:.0f} ({np.median(errors):+.0f})".replace("inf", "∞")


def certainty(some: list[Said]) -> str:
    """Summarise how sure it was of all workloads at one level, and how rightly."""
    if not some:
        return "–"
    trusted = [one for one in some if one.trusted]
    wrong = sum(abs(one.error or 0.0) > FAR_OFF for one in trusted)
    held, reached = sum(bool(one.holds) for one in some), sum(bool(one.reaches) for one in some)
    width = np.median([one.width or np.inf for one in some])
    return f"{held} ({reached}) of {len(some)}; {width:.2f}; {len(trusted)}; {wrong}"


@contextmanager
def watched(server: PrivateServer, interval: float, **more: Any) -> Iterator[Agent]:
    """The agent on that server, as the daemon runs it, with intervals that long, s."""
    target = {"name": "bench", "socket": server.socket, "user": "root"}
    data = {"fit": {"interval": interval, "window": 3600.0}, "targets": [target], **more}
    agent = Agent(Config.model_validate(data))
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def window_of(agent: Agent) -> Window:
    """What the agent has seen of its one target."""
    (monitor,) = agent.monitors
    return monitor.history.window(time.monotonic())


def predictions(window: Window) -> Iterator[Prediction]:
    """Predict the peak with each estimator."""
    for source in Source:
        yield from of_source(window, source)


def of_source(window: Window, source: Source) -> Iterator[Prediction]:
    """Capacity, the law alone, limits alone, and two methods of others."""
    seen = observations(window, source)
    capacity = assess_capacity(seen)
    note = f"{capacity.trust} by {capacity.limit}"
    yield Prediction(
        f"capacity, {source}", capacity.value, note, capacity.lower or 0.0, capacity.upper
    )
    resource_limit = min(
        (w.x_max for w in capacity.resource_limits if w.x_max is not None), default=None
    )
    yield Prediction(f"limits alone, {source}", resource_limit, "")
    law = capacity.usl
    doubts = capacity.usl_finding.check.sentence if capacity.usl_finding else ""
    peak = law.x_max if law else None
    yield Prediction(f"USL alone, {source}", peak, law.trust if law else doubts)
    n, x = concurrency(window, source), window["throughput"]
    loaded = np.isfinite(n) & (n >= 0.5) & (x > 0)
    for method in (Method.LSQ, Method.LINEARISED):
        if np.count_nonzero(loaded) < 3:
            yield Prediction(f"{method}, {source}", None, "too few loaded intervals")
        else:
            other = fit(n[loaded], x[loaded], method)
            yield Prediction(f"{method}, {source}", other.x_max, other.trust)


if __name__ == "__main__":
    main()
