"""Record a day of a real server, in which a second stands for a minute of the day.

    python bench/record_day.py FOLDER [--flavour mysql] [--workload shop] [--seconds 1080]

The rate of an open loop follows a day from four in the morning to ten at night: a quiet night, a
busy noon, and an evening that exceeds the server's capacity. The agent watches, and its history is
exported unchanged: intervals of two seconds, which stand for two minutes. Closed loops measure the
throughput of several numbers of threads before and after the day, unseen by the agent.
`FOLDER/FLAVOUR-WORKLOAD.csv.gz` has the agent's intervals, the `.json` beside it the measurements
and the rates. The machine is divided as in `real_servers.py`.
"""

import argparse
import gzip
import io
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from pathlib import Path

from sysbench_loads import closed_loop, loaded_server, open_loop
from sysbench_workloads import ZOO, Workload

from agent.cli import main as command
from agent.config.history_settings import HistorySettings
from agent.demo.private_server import PrivateServer
from agent.history.store import Store
from testbed.real.agent_in_process import watched
from testbed.recorded.day import FIRST_HOUR, HOUR, HOURS, MINUTE, day_share

INTERVAL, STEP = 2.0, 10.0
"""Seconds of the agent's intervals, and of each rate."""
CLOSED_LOOP = 6.0
THREADS = (8, 16, 32)
"""Of the closed loops, besides the number of the open loop's connections."""


def main() -> None:
    """Record a day and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), default="shop")
    parser.add_argument(
        "--seconds", type=float, default=HOUR * HOURS / MINUTE, help="of the whole day"
    )
    args = parser.parse_args()
    with loaded_server(args.flavour, args.workload) as (server, workload, title):
        per_event, before = peaks(server, workload)
        most = before[workload.connections]
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder) / "history.db", HistorySettings())
            with closing(store), watched(server, INTERVAL, store):
                asked = play(server, workload, most, per_event, args.seconds)
            text = exported(store.path)
        _, after = peaks(server, workload)
    name = f"{args.flavour}-{args.workload}"
    (args.folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    measured = {"name": title, "connections": workload.connections, "seconds": args.seconds}
    measured |= {"before": before, "after": after, "asked": asked}
    (args.folder / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{title}: before {before}, after {after}; {len(text.splitlines()) - 1} intervals")


def peaks(server: PrivateServer, workload: Workload) -> tuple[float, dict[int, float]]:
    """Measure closed loops: queries per event, and queries/s by the number of threads."""
    per_event, found = 1.0, {}
    for threads in (*THREADS, workload.connections):
        per_event, level = closed_loop(server, workload, CLOSED_LOOP, threads)
        found[threads] = level.throughput
    return per_event, found


def play(
    server: PrivateServer, workload: Workload, most: float, per_event: float, seconds: float
) -> Sequence[tuple[float, float]]:
    """Send a day's load; returns times (Unix seconds) and the rates from then on, queries/s."""
    start, asked = time.time(), []
    for _ in range(round(seconds / STEP)):
        now = time.time()
        hour = FIRST_HOUR + HOURS * min((now - start + STEP / 2) / seconds, 1.0)
        rate = most * day_share(hour)
        asked.append((round(now, 3), round(rate, 1)))
        open_loop(server, workload, STEP, rate / per_event)
    time.sleep(2 * INTERVAL)
    return asked


def exported(history: Path) -> str:
    """The intervals as `history export` writes them."""
    output = io.StringIO()
    with redirect_stdout(output):
        code = command(["history", "export", "--file", str(history), "--kind", "intervals"])
    if code:
        raise SystemExit(f"the history cannot be exported ({code})")
    return output.getvalue()


if __name__ == "__main__":
    main()
