"""Predict a real server's capacity from a load far below it, and compare with the truth.

    python bench/real_servers.py [--flavour mysql|mariadb] [--workload hot] [--level 15] [--step 12]
                                 [--save FOLDER]
    python bench/real_servers.py --replay FILE...

First a closed loop finds the true peak: sysbench with more and more threads, each for `--level`
seconds. Then an open loop whose rate changes every `--step` seconds stays below 30, then 50, then
70 % of that peak, while the agent watches. After each, every estimator predicts the peak from what
was seen up to then. The server has the machine's first processor to itself and sysbench the second,
as if it ran elsewhere, both ahead of all other work where we are root. `--save` keeps what was
seen, and `--replay` predicts from it again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent.concurrency import concurrency, n_variance
from agent.config.settings import Config
from agent.daemon import Agent
from agent.demo.server import Flavour, PrivateServer, find_server
from agent.intervals import Interval, Window
from agent.pipeline import observations
from agent.snapshot import Source
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.usl_fit import Method, fit, fit_map

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = {
    "hot": [str(ROOT / "bench" / "hot.lua")],
    "read-only": ["oltp_read_only", "--tables=2", "--table-size=20000"],
    "read-write": ["oltp_read_write", "--tables=2", "--table-size=20000"],
}
THREADS = (4, 8, 12, 16, 24, 32, 48, 64, 96)
CAPS = (0.3, 0.5, 0.7)
SHARES = (0.2, 0.6, 0.4, 0.9, 0.3, 0.75, 0.5, 1.0)  # of the cap, a step each
INTERVAL = 4.0
DATABASE = "headroom_bench"
SERVER_CPU, CLIENT_CPU = 0, 1
FIRST = -20  # the highest priority there is


def main() -> None:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append")
    parser.add_argument("--level", type=float, default=15.0)
    parser.add_argument("--step", type=float, default=12.0)
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    args = parser.parse_args()
    for file in args.replay or []:
        replay(file)
    for workload in args.workload or ([] if args.replay else WORKLOADS):
        seen = run(args.flavour, workload, args.level, args.step)
        if args.save:
            (args.save / f"{args.flavour}-{workload}.json").write_text(json.dumps(seen))


def run(flavour: Flavour, workload: str, level: float, step: float) -> dict[str, object]:
    """One workload on a server of its own: the truth, then the predictions; answers all of it."""
    program = find_server(flavour, ROOT / ".cache" / flavour) or find_server(flavour)
    if program is None:
        sys.exit(f"no {flavour} here; scripts/test installs it")
    options = ["--max-connections=300", "--innodb-buffer-pool-size=256M"]
    with PrivateServer(program, options=options) as server:
        give_a_processor(server.pid)
        prepare(server, workload)
        per_event, truth = ladder(server, workload, level)
        peak = max(truth.values())
        name = f"{workload} on {program.flavour} {program.version}"
        tell_truth(name, truth)
        caps = []
        with watched(server) as agent:
            for cap in CAPS:
                for share in SHARES:
                    rate = cap * share * peak / per_event
                    sysbench(server, workload, step, 64, rate)
                window = window_of(agent)
                report(window, cap, peak)
                caps.append({"cap": cap, "intervals": [row._asdict() for row in window.rows]})
    return {"name": name, "truth": truth, "caps": caps}


def tell_truth(name: str, truth: dict[int, float]) -> None:
    """Print the ladder and its peak."""
    print(f"\n{name}: ", end="")
    print(", ".join(f"{n}: {x:,.0f}" for n, x in truth.items()))
    print(f"true peak {max(truth.values()):,.0f} queries/s\n")


def replay(file: Path) -> None:
    """Predict again from what a run saved."""
    saved = json.loads(file.read_text())
    truth = {int(n): x for n, x in saved["truth"].items()}
    tell_truth(saved["name"], truth)
    for part in saved["caps"]:
        window = Window(Interval(**row) for row in part["intervals"])
        report(window, part["cap"], max(truth.values()))


def give_a_processor(pid: int) -> None:
    """Let the server run on the first processor alone, and ahead of others if we may."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        thread = int(task.name)
        os.sched_setaffinity(thread, {SERVER_CPU})
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, thread, FIRST)


def prepare(server: PrivateServer, workload: str) -> None:
    """The tables of the workload."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(f"CREATE TABLE {DATABASE}.hot (id INT PRIMARY KEY, n INT)")
        cursor.execute(f"INSERT INTO {DATABASE}.hot VALUES (1, 0)")
        cursor.execute(f"CREATE TABLE {DATABASE}.cold (id INT PRIMARY KEY, n INT)")
        rows = ",".join(f"({i},{i})" for i in range(1, 1001))
        cursor.execute(f"INSERT INTO {DATABASE}.cold VALUES {rows}")
        session.commit()
    if workload != "hot":
        command(server, workload, "prepare")


def ladder(server: PrivateServer, workload: str, level: float) -> tuple[float, dict[int, float]]:
    """Queries per event, and the throughput (queries/s) at each number of threads."""
    truth = {}
    per_event = 1.0
    for threads in THREADS:
        before, start = questions(server), time.monotonic()
        events = sysbench(server, workload, level, threads)
        asked = questions(server) - before
        truth[threads] = asked / (time.monotonic() - start)
        per_event = asked / max(events, 1)
    return per_event, truth


def questions(server: PrivateServer) -> float:
    """The server's own count of queries."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        row = cursor.fetchone()
        return float(row[1]) if row else 0.0


def sysbench(
    server: PrivateServer, workload: str, seconds: float, threads: int, rate: float = 0.0
) -> int:
    """Run the load for so long; answers how many events there were."""
    options = [f"--time={seconds:.0f}", f"--threads={threads}", f"--rate={rate:.0f}"]
    for line in command(server, workload, "run", *options).splitlines():
        if "total number of events" in line:
            return int(line.split(":")[1])
    return 0


def command(server: PrivateServer, workload: str, verb: str, *options: str) -> str:
    """One call of sysbench on the server's socket; answers what it printed."""
    script, *own = WORKLOADS[workload]
    place = [f"--mysql-socket={server.socket}", "--mysql-user=root", f"--mysql-db={DATABASE}"]
    ignore = ["--db-ps-mode=disable", "--mysql-ignore-errors=1213,1205,1062"]
    ahead = ["nice", "-n", str(FIRST)] if os.geteuid() == 0 else []
    pinned = ["taskset", "-c", str(CLIENT_CPU), *ahead, "sysbench", script]
    words = [*pinned, *place, *ignore, *own, *options, verb]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"sysbench failed: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


@contextmanager
def watched(server: PrivateServer) -> Iterator[Agent]:
    """The agent on that server, as the daemon runs it."""
    target = {"name": "bench", "socket": server.socket, "user": "root"}
    data = {"fit": {"interval": INTERVAL, "window": 3600.0}, "targets": [target]}
    agent = Agent(Config.model_validate(data))
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def window_of(agent: Agent) -> Window:
    """What the agent has seen of its one target."""
    (watch,) = agent._watches
    return watch._history.window(time.monotonic())


def report(window: Window, cap: float, peak: float) -> None:
    """What each estimator predicts from all that was seen up to now."""
    print(f"  seen up to {cap:.0%} of the peak, {len(window)} intervals")
    for name, value, note in predictions(window):
        error = "" if value is None else f"{100 * (value / peak - 1):+7.0f} %"
        number = "-" if value is None else f"{value:,.0f}"
        print(f"    {name:<34} {number:>10} {error:>10}  {note}")


def predictions(window: Window) -> Iterator[tuple[str, float | None, str]]:
    """Name, predicted peak (queries/s) and trust of each estimator."""
    for source in Source:
        yield from of_source(window, source)


def of_source(window: Window, source: Source) -> Iterator[tuple[str, float | None, str]]:
    """Capacity, the law alone, walls alone, and two methods of others."""
    seen = observations(window, source)
    capacity = assess_capacity(seen)
    yield f"capacity, {source}", capacity.value, f"{capacity.trust} by {capacity.limit}"
    walls = assess_capacity(without_law(seen))
    yield f"walls alone, {source}", walls.value, f"{walls.trust} by {walls.limit}"
    n, x = concurrency(window, source), window["throughput"]
    loaded = np.isfinite(n) & (n >= 0.5) & (x > 0)
    if np.count_nonzero(loaded) < 3:
        yield f"USL alone, {source}", None, "too few loaded intervals"
        return
    variance = n_variance(window, source)[loaded]
    for method in Method:
        law = fit(n[loaded], x[loaded], method)
        if method is Method.MAP:
            law = fit_map(n[loaded], x[loaded], n_variance=variance)
        yield f"USL alone, {method}, {source}", law.x_max, law.trust.value


def without_law(seen: Observations) -> Observations:
    """The same, with no concurrency known."""
    nothing = np.full(len(seen), np.nan)
    return replace(seen, concurrency=nothing)


if __name__ == "__main__":
    main()
