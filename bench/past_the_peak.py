"""Drive a real server past its peak, and compare what is reported there with the truth.

    python bench/past_the_peak.py [--flavour mysql|mariadb] [--workload hot] [--seconds 16]
                                  [--save FOLDER]
    python bench/past_the_peak.py --replay FILE...

A closed loop finds the number of threads with the highest throughput. Then the agent watches a
closed loop at a quarter of it, at half, at the best, at four times the best, at both once more and
at half again. Printed is what the agent's own pipeline reports after every interval, and the error
of the capacity against what was served until then at the best number of threads: on a machine whose
speed varies, the number that was best on the ladder may not be the best a minute later, and one
stage may be a fast or a slow moment's.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from sysbench_loads import ladder, loaded_server, questions, sysbench
from sysbench_workloads import CLASSIC, ZOO

from agent.demo.private_server import Flavour
from testbed.real.agent_in_process import watched, window_of
from testbed.recorded.overload import INTERVAL, reported
from testbed.recorded.peak_predictions import saved

STAGES = (0.25, 0.5, 1.0, 4.0, 1.0, 4.0, 0.5)
"""Threads of each stage, in multiples of the best number."""


def main() -> None:
    """Print a table for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), action="append")
    parser.add_argument("--seconds", type=float, default=16.0, help="of each stage")
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    args = parser.parse_args()
    for file in args.replay or []:
        report(saved(file))
    for workload in args.workload or ([] if args.replay else CLASSIC):
        seen = run(args.flavour, workload, args.seconds)
        if args.save:
            file = args.save / f"past-{args.flavour}-{workload}.json.gz"
            file.write_bytes(gzip.compress(json.dumps(seen).encode(), mtime=0))
        report(seen)


def run(flavour: Flavour, name: str, seconds: float) -> dict[str, Any]:
    """Record one run on a server of its own: the ladder, then the intervals of each stage."""
    with loaded_server(flavour, name) as (server, workload, title):
        _, truth = ladder(server, workload, 4.0)
        best = max(truth, key=lambda n: truth[n].throughput)
        stages = []
        with watched(server, INTERVAL) as agent:
            for share in STAGES:
                threads = max(round(share * best), 1)
                before = questions(server)
                sysbench(server, workload, seconds, threads)
                served = (questions(server) - before) / seconds
                rows = [row._asdict() for row in window_of(agent).as_intervals]
                stages.append({"threads": threads, "intervals": len(rows), "served": served})
    return {"name": title, "truth": truth, "best": best, "stages": stages, "intervals": rows}


def report(seen: dict[str, Any]) -> None:
    """Print what is reported after each interval, and what was served at the best concurrency."""
    print(f"\n{seen['name']}")
    print(
        "threads  queries/s  best: threads  served  capacity  error  N at it  headroom  overloaded",
        end="",
    )
    print("  lost  limit")
    for threads, (best, served), snapshot in reported(seen):
        capacity, headroom = snapshot.capacity(snapshot.at), snapshot.headroom(snapshot.at)
        if capacity is None or capacity.value is None or headroom is None or not snapshot.load:
            continue
        error = capacity.value / served - 1
        at_peak = "–" if capacity.concurrency is None else f"{capacity.concurrency:.1f}"
        print(
            f"{threads:7}  {snapshot.load.throughput:9,.0f}  {best:13}  {served:6,.0f}"
            f"  {capacity.value:8,.0f}  {error:+5.0%}"
            f"  {at_peak:>7}  {headroom.ratio:+8.2f}  {headroom.overloaded!s:>10}"
            f"  {headroom.overload_loss:4.0%}  {capacity.limit} {capacity.trust}"
        )


if __name__ == "__main__":
    main()
