"""How the capacity follows a neighbour: another program that takes processors of the host.

    python bench/neighbour.py [--flavour mysql|mariadb] [--workload points-2-processors]
                              [--processors 1] [--services] [--save FILE]
    python bench/neighbour.py --replay FILE
    python bench/neighbour.py --simulated 6000 7000 8000

An open loop at 20 to 60 % of the clients' peak, with a new rate every few seconds. After two rounds
a program starts that keeps a processor busy at the server's priority (one for each of
`--processors`); after five more it ends. With `--services` each of them, and the server with its
clients, has a control group of the same weight, as services of systemd do. At the end of each round
an open loop above the capacity measures the clients' peak, which is the truth; intervals that
overlap this measurement are not in the agent's window. The table compares the capacity and its 90 %
interval with that truth.

`--simulated` plays simulated months with neighbours instead, four from each of these seeds on. They
take a quarter to a half of the processors for one to three hours. The capacity is assessed so many
minutes after each neighbour begins and ends.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_servers import OVERLOAD, Pace, PeakMeasurements
from sysbench_loads import FIRST, ahead, closed_loop, loaded_server, open_loop, overload
from sysbench_workloads import ZOO

from agent.demo.private_server import Flavour
from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from models.capacity.assess import assess_capacity
from models.capacity.saturation_probability import is_contradicted
from models.trust import Trust
from testbed.real.agent_in_process import watched, window_of
from testbed.real.cgroups import as_service
from testbed.recorded.peak_predictions import FAR_OFF, saved, seen_below
from testbed.simulated.server_months import Month, server_month

PACE = Pace(level=3.0, step=6.0, interval=2.0, moment=3.0)
STEPS = 7
"""Of a round; then the truth is measured."""
ROUNDS = (2, 5, 2)
"""Before the neighbour, beside it, and after it."""
BUSY_LOOP = "while True: pass"
AFTER = (-5, 1, 2, 4, 16)
"""Minutes."""
STEP_OF_OTHERS = 0.1
"""Of the processors: a neighbour begins or ends."""


def main() -> None:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), default="points-2-processors")
    parser.add_argument("--processors", type=int, default=1, help="that neighbours keep busy")
    parser.add_argument("--services", action="store_true", help="in control groups of equal weight")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--simulated", type=int, nargs="+", metavar="SEED")
    args = parser.parse_args()
    if args.simulated:
        simulated([first + k for first in args.simulated for k in range(4)])
        return
    if args.replay:
        seen = saved(args.replay)
    else:
        seen = record(args.flavour, args.workload, args.processors, as_services=args.services)
    if args.save:
        args.save.write_bytes(gzip.compress(json.dumps(seen).encode(), mtime=0))
    table(seen)


def record(flavour: Flavour, name: str, processors: int, *, as_services: bool) -> dict[str, Any]:
    """Record a server before, beside and after the neighbour."""
    rng = np.random.default_rng(1)
    group = as_service if as_services else lambda *_: nullcontext()
    with loaded_server(flavour, name) as (server, workload, title), group(server.pid, os.getpid()):
        per_event, level = closed_loop(server, workload, PACE.level, workload.connections)
        moments = PeakMeasurements(server, workload, PACE, [workload.connections], per_event)
        moments.recent.append((workload.connections, level.throughput))
        highest = overload(
            server, workload, PACE.moment, OVERLOAD * level.throughput / per_event
        ).throughput
        rounds: list[dict[str, Any]] = []
        with watched(server, PACE.interval) as agent:
            for part, count in enumerate(ROUNDS):
                with ExitStack() as stack:
                    for _ in range(processors if part == 1 else 0):
                        pid = stack.enter_context(neighbour())
                        stack.enter_context(group(pid))
                    for _ in range(count):
                        for _ in range(STEPS):
                            rate = rng.uniform(0.2, 0.6) * highest / per_event
                            open_loop(server, workload, PACE.step, rate)
                        rows = moments.others_of(window_of(agent))
                        _, truth = moments.measure()
                        rounds.append({"part": part, "intervals": len(rows), "truth": truth})
    return {"name": title, "rounds": rounds, "intervals": rows}


@contextmanager
def neighbour() -> Iterator[int]:
    """Keep a processor busy, in a session of its own, at the priority of server and clients."""
    words = [sys.executable, "-c", BUSY_LOOP]
    with subprocess.Popen(words, start_new_session=True) as process:
        try:
            if os.geteuid() == 0:
                os.setpriority(os.PRIO_PROCESS, process.pid, FIRST)
            with ahead(process.pid):
                yield process.pid
        finally:
            process.terminate()


def table(seen: dict[str, Any]) -> None:
    """Print what was said after each round, beside what the clients could get then."""
    print(f"{seen['name']}, queries/s")
    print(f"{'':8} {'truth':>8} {'capacity':>8} {'off':>6}  90 % interval, trust, limit, reasons")
    names = ("before", "beside", "after")
    for one in seen["rounds"]:
        found = assess_capacity(
            observations(seen_below(seen, one), ConcurrencySource.STATEMENT_TIME)
        )
        truth, value = one["truth"], found.value or float("nan")
        ends = f"{found.lower or 0:,.0f} to {found.upper or np.inf:,.0f}"
        print(
            f"{names[one['part']]:8} {truth:8,.0f} {value:8,.0f} {100 * (value / truth - 1):+5.0f}%"
            f"  {ends}, {found.trust}, {found.limit} {' '.join(found.reasons)}"
        )


class Assessed(NamedTuple):
    """A capacity so many minutes after a neighbour began or ended."""

    error: float
    """ln(capacity/truth); NaN without a capacity."""
    held: bool
    trusted: bool
    contradicted: bool
    certain: bool
    """A probability of 0.95 or more at 80 % of the truth, or of 0.05 or less at 125 % of it."""


def simulated(seeds: list[int]) -> None:
    """Print a row for each number of minutes."""
    found: dict[tuple[str, int], list[Assessed]] = {}
    for known in (server_month("neighbours", seed) for seed in seeds):
        steps = np.diff(known.monthly_load.others)
        for minute in np.flatnonzero(np.abs(steps) > STEP_OF_OTHERS) + 1:
            kind = "begins" if steps[minute - 1] > 0 else "ends"
            for after in AFTER:
                found.setdefault((kind, after), []).append(assessed(known, int(minute) + after))
    print("| a neighbour | minutes ago | error | held | no probability | trusted | off | certain |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, after), some in sorted(found.items()):
        size = np.abs(np.expm1([one.error for one in some]))
        errors = f"{100 * np.nanmedian(size):.0f}/{100 * np.nanquantile(size, 0.9):.0f}"
        off = sum(one.trusted and abs(np.expm1(one.error)) > FAR_OFF / 100 for one in some)
        held, silent = sum(one.held for one in some), sum(one.contradicted for one in some)
        trusted, certain = sum(one.trusted for one in some), sum(one.certain for one in some)
        counts = f"{held} of {len(some)} | {silent} | {trusted} | {off} | {certain}"
        print(f"| {kind} | {after} | {errors} | {counts} |")


def assessed(known: Month, end: int) -> Assessed:
    """Assess a simulated server from the day before that minute ends."""
    found = assess_capacity(known.day_until(end))
    truth = float(known.room[end - 1]) * known.server.capacity
    error = np.log(found.value / truth) if found.value else np.nan
    held = (found.lower or 0.0) < truth < (found.upper or np.inf)
    is_silent, certain = is_contradicted(found), False
    if found.distribution is not None and not is_silent:
        low, high = (float(found.distribution.at_most(far * truth)) for far in (0.8, 1.25))
        certain = low >= 0.95 or high <= 0.05
    return Assessed(float(error), held, found.trust is Trust.TRUSTED, is_silent, certain)


if __name__ == "__main__":
    main()
