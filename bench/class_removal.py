"""What each query class costs in capacity, as the agent says it, against what it really costs.

    python bench/class_removal.py [--estimated] [--connections 0] [--load 0.5] [--step 8]
                                  [--level 1] [--passes 7]

A real MySQL under a mix of six classes in fixed proportions (`class_removal.lua`). A closed loop
finds its peak, for the open loop: one whose rate changes every `--step` seconds, on average
`--load` of that peak, while the agent watches and says of each class how much more of everything
else fits without it, and with it at half its cost. Then closed loops of `--level` seconds find the
truth: the peak of the mix, of the mix without the class, and with each of its calls over so few
rows that it costs half. `--passes` repeat them, every other the other way round. With `--estimated`
the server does not tell the agent the CPU of its statements. Server and sysbench have a processor
each, as in `real_servers.py`, and where we are root their sessions run ahead of all others.

All of it goes over the same `--connections`: the more of them take turns, the colder each finds the
caches. Unless they are given it is the number that serves most in a closed loop.

What is compared is how many times as much of everything else is served, less 1. Without a class
that made the share q of the calls that is X'/(X·(1 − q)) − 1, with X and X' the peaks (queries/s);
with a cheaper class X'/X − 1, and the question asks for the part of its cost that was measured. The
answers are those of `mysql-headroom what-if`, with their intervals.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from record_classes import DATABASE, prepare
from sysbench_loads import ahead, give_processors, sysbench
from sysbench_workloads import Workload

from agent.assessment.snapshot import Snapshot
from agent.demo.private_server import PrivateServer, find_server
from agent.what_if.current_state import current_state_of
from collectors.host import process_clock
from models.robust_regression import mad
from models.what_if.changes import MIN_FACTOR, Changes
from models.what_if.predict import what_if
from models.what_if.predicted_value import PredictedValue
from testbed.real.agent_in_process import watched

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "bench" / "class_removal.lua")
TEXTS = {
    "point": "SELECT `c` FROM `sbtest1`",
    "update": "UPDATE `sbtest1`",
    "range": "SELECT `c` FROM `sbtest2`",
    "sort": "SELECT `c` FROM `sbtest3`",
    "sum": "SELECT SUM ( `k` )",
    "scan": "SELECT COUNT ( * ) FROM `sbtest4`",
}
"""How each class's text begins."""
OF_MANY_ROWS = ("range", "sort", "sum", "scan")
MIX, WITHOUT, HALF = "mix", "without", "half"
THREADS = (4, 8, 16, 32)
"""Of the closed loop where the best number counts."""
STEPS = (0.6, 1.2, 0.8, 1.4, 1.0, 0.7, 1.3, 1.0)
"""Of the open loop's mean rate, one after the other."""
INTERVAL = 4.0
OF_A_MEDIAN = np.sqrt(np.pi / 2)
"""A median's standard error over a mean's."""
CPU_TIMES = "UPDATE performance_schema.setup_consumers SET ENABLED = '{}' WHERE NAME LIKE '%_cpu'"
SUMS = (
    "SELECT SUM(COUNT_STAR), SUM(SUM_CPU_TIME) * 1e-12"
    " FROM performance_schema.events_statements_summary_by_digest"
    f" WHERE SCHEMA_NAME = '{DATABASE}' AND DIGEST_TEXT LIKE %s"
)


class Used(NamedTuple):
    """What a class did."""

    calls: float
    cpu: float
    """Of its statements by the server's own count, s."""


class Run(NamedTuple):
    """What a load made the server do."""

    throughput: float
    """Queries/s."""
    cpu: float
    """Of the whole server, s."""
    seconds: float
    used: dict[str, Used]

    @property
    def processors(self) -> float:
        """How many the server used; what it takes to set up the sessions comes on top."""
        return self.cpu / self.seconds

    def share(self, name: str) -> float:
        """A class's part of the server's CPU."""
        return self.used[name].cpu / self.cpu

    def per_call(self, name: str) -> float:
        """A class's CPU per call, s."""
        return self.used[name].cpu / max(self.used[name].calls, 1.0)

    def calls(self, name: str) -> float:
        """A class's part of the calls."""
        return self.used[name].calls / sum(one.calls for one in self.used.values())


class Beside(NamedTuple):
    """A changed mix, and the mix itself just before and after."""

    run: Run
    mixes: tuple[Run, Run]

    @property
    def ratio(self) -> float:
        """Of the throughputs."""
        return self.run.throughput / mean(mix.throughput for mix in self.mixes)

    def cost(self, name: str) -> float:
        """CPU of a call of that class now, as a part of what it is in the mix."""
        return self.run.per_call(name) / mean(mix.per_call(name) for mix in self.mixes)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--estimated", action="store_true")
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.5)
    parser.add_argument("--step", type=float, default=8.0)
    parser.add_argument("--level", type=float, default=1.0)
    parser.add_argument("--passes", type=int, default=7)
    args = parser.parse_args()
    program = find_server("mysql", ROOT / ".cache" / "mysql") or find_server("mysql")
    if program is None:
        sys.exit("no MySQL here; scripts/test installs it")
    options = ["--max-connections=300", "--innodb-buffer-pool-size=512M"]
    with PrivateServer(program, options=options) as server:
        prepare(server)
        give_processors(server.pid, 1)
        changes = changed_mixes()
        with ahead(server.pid, os.getpid()):
            tried = [args.connections] if args.connections else THREADS
            threads, peak = find_peak(server, 2 * args.level, tried)
            switch(server, "NO" if args.estimated else "YES")
            seen, said = observe(server, threads, args.load * peak, args.step)
            switch(server, "YES")
            found = [*measure(server, changes, args.level, threads, args.passes)]
    report(seen, said, found)


def changed_mixes() -> list[str]:
    """Name all that becomes of the mix."""
    kinds = [*((WITHOUT, one) for one in TEXTS), *((HALF, one) for one in OF_MANY_ROWS)]
    return [f"{kind} {one}" for kind, one in kinds]


def workload(name: str) -> Workload:
    """The mix, or what its name says becomes of it."""
    change = () if name == MIX else ("--{}={}".format(*name.split()),)
    return Workload(SCRIPT, (f"--mysql-db={DATABASE}", *change))


def find_peak(server: PrivateServer, seconds: float, tried: Sequence[int]) -> tuple[int, float]:
    """How many threads give the mix most queries/s, and how many these are."""
    loops = {n: run(server, MIX, seconds, n).throughput for n in tried}
    print("closed loop:", ", ".join(f"{n} threads {x:,.0f}/s" for n, x in loops.items()))
    return max(loops.items(), key=lambda loop: loop[1])


def measure(
    server: PrivateServer, changes: Sequence[str], seconds: float, threads: int, passes: int
) -> Iterator[tuple[str, Beside]]:
    """Each change between two runs of the mix, since the machine is not the same all the time."""
    for i in range(passes):
        before = run(server, MIX, seconds, threads)
        for name in changes[:: -1 if i % 2 else 1]:
            changed = run(server, name, seconds, threads)
            after = run(server, MIX, seconds, threads)
            yield name, Beside(changed, (before, after))
            before = after


def run(server: PrivateServer, name: str, seconds: float, threads: int, rate: float = 0.0) -> Run:
    """Run a load, closed or at that rate (queries/s)."""
    before, cpu = sums(server), process_clock(server.pid) or 0.0
    asked = sysbench(server, workload(name), seconds, threads, rate)
    cpu = (process_clock(server.pid) or 0.0) - cpu
    after = sums(server)
    used = {one: Used(*(np.array(after[one]) - np.array(before[one])).tolist()) for one in TEXTS}
    return Run(asked / seconds, cpu, seconds, used)


def sums(server: PrivateServer) -> dict[str, Used]:
    """What each class did since the server's start."""
    found = {}
    with server.connect_as_root() as session, session.cursor() as cursor:
        for name, text in TEXTS.items():
            cursor.execute(SUMS, (f"{text}%",))
            row = cursor.fetchone() or ()
            found[name] = Used(*(float(value or 0.0) for value in row))
    return found


def switch(server: PrivateServer, on: str) -> None:
    """Switch the counting of the CPU of statements on or off: YES or NO."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute(CPU_TIMES.format(on))


def observe(
    server: PrivateServer, threads: int, rate: float, step: float
) -> tuple[list[Run], Snapshot]:
    """The open loop, and what the agent knows at its end."""
    classes = {"interval": 2 * step, "digest_text": True}
    with watched(server, INTERVAL, classes=classes) as agent:
        runs = [run(server, MIX, step, threads, share * rate) for share in STEPS]
        time.sleep(INTERVAL)
        (snapshot,) = agent.snapshots()
    return runs, snapshot


def report(seen: Sequence[Run], said: Snapshot, found: Sequence[tuple[str, Beside]]) -> None:
    """Print the capacity, then what was said of each class and what is true."""
    now = time.time()
    state, capacity = said.current_classes(now), said.capacity(now)
    if state is None or capacity is None or capacity.value is None:
        sys.exit("the agent has nothing to say")
    cpu = state.resource("cpu")
    mixes = [mix for _, beside in found for mix in beside.mixes]
    x = mean(mix.throughput for mix in mixes)
    least, most = (end(mix.throughput for mix in mixes) / x - 1 for end in (min, max))
    load = [run.throughput / x for run in seen]
    print(f"true peak of the mix {x:,.0f} queries/s ({least:+.0%} to {most:+.0%} from run to run),")
    print(f"{mean(mix.processors for mix in mixes):.0%} of a processor; seen", end=" ")
    print(f"{min(load):.0%} to {max(load):.0%} of it, {mean(load):.0%} on average")
    print(
        f"said {capacity.value:,.0f} ({capacity.value / x - 1:+.0%}), {capacity.trust}, by", end=" "
    )
    print(f"{capacity.limit}; classes: {cpu.source if cpu else None}\n")
    print(f"{'':15}{'share of CPU':^16}{'':8}{'more of everything else':^56}")
    heads = "calls", "said", "at peak", "its cost", "gain", "from", "to", "true", "±", "off", "as C"
    print(f"{'class':7}" + "".join(f"{head:>8}" for head in heads))
    for (name, text), kind in itertools.product(TEXTS.items(), (WITHOUT, HALF)):
        beside = [one for change, one in found if change == f"{kind} {name}"]
        if not beside:
            continue
        one = next(c for c in state.classes if (c.text or "").startswith(text))
        cost = MIN_FACTOR if kind == WITHOUT else mean(b.cost(name) for b in beside)
        answer = what_if(current_state_of(said, now), Changes(queries={one.name.digest: cost}))
        q = mean(mix.calls(name) for mix in mixes)
        left = 1 - q if kind == WITHOUT else 1.0
        shares = [
            q,
            one.recent["cpu"] / cpu.total if cpu else np.nan,
            mean(mix.share(name) for mix in mixes),
            cost,
        ]
        gains = against(answer.together.gain, [b.ratio / left - 1 for b in beside])
        print(f"{name:7}" + "".join(f"{cell:8.1%}" for cell in [*shares, *gains]))


def against(said: PredictedValue | None, true: Sequence[float]) -> list[float]:
    """A gain with its bounds, the true one's median and its error, how far gain and C are off."""
    value, low, high = (said.value, said.lower, said.upper) if said else 3 * (np.nan,)
    middle = float(np.median(true))
    error = OF_A_MEDIAN * mad(np.array(true)) / np.sqrt(len(true)) if len(true) > 1 else np.nan
    bounds = [value, low, np.inf if high is None else high]
    return [*bounds, middle, float(error), value / middle - 1, (1 + value) / (1 + middle) - 1]


def mean(values: Iterable[float]) -> float:
    """The arithmetic one."""
    return float(np.mean(list(values)))


if __name__ == "__main__":
    main()
