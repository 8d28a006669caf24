"""Record a day of a real server, in which a second stands for a minute of the day.

    python bench/record_day.py FOLDER [--flavour mysql] [--workload shop] [--seconds 1080]

An open loop's rate follows a day from four in the morning to ten at night: a quiet night, a busy
noon, and an evening at whose height more is asked for than the server can do. The agent watches,
and its own history is exported as it is: intervals of two seconds, which stand for two minutes.
Before and after the day closed loops measure what so many threads get at most, which the agent does
not see. `FOLDER/FLAVOUR-WORKLOAD.csv.gz` is what the agent has seen, and `….json` beside it what
was measured and asked for. The machine is divided as in `real_servers.py`.
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

from sysbench_loads import loaded_server, open_loop, questions, sysbench
from workloads import ZOO, Workload

from agent.cli import main as command
from agent.config.retention import HistorySettings
from agent.demo.server import PrivateServer
from agent.history.store import Store
from testbed.real.agent_in_process import watched
from testbed.recorded.day import FIRST_HOUR, HOUR, HOURS, MINUTE, day_share

INTERVAL, STEP = 2.0, 10.0
"""Seconds of the agent's intervals, and of each rate."""
CLOSED_LOOP = 6.0
THREADS = (8, 16, 32)
"""Of the closed loops, besides as many as the open loop has connections."""


def main() -> None:
    """Record, and say what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flavour", choices=["mysql", "mariadb"], default="mysql")
    parser.add_argument("--workload", choices=list(ZOO), default="shop")
    parser.add_argument(
        "--seconds", type=float, default=HOUR * HOURS / MINUTE, help="of the whole day"
    )
    args = parser.parse_args()
    with loaded_server(args.flavour, args.workload) as (server, workload, title):
        before = closed_loops(server, workload)
        most = before[workload.connections]
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder) / "history.db", HistorySettings())
            with closing(store), watched(server, INTERVAL, store):
                asked = play(server, workload, most, args.seconds)
            text = exported(store.path)
        after = closed_loops(server, workload)
    name = f"{args.flavour}-{args.workload}"
    (args.folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    measured = {"name": title, "connections": workload.connections, "seconds": args.seconds}
    measured |= {"before": before, "after": after, "asked": asked}
    (args.folder / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{title}: before {before}, after {after}; {len(text.splitlines()) - 1} intervals")


def closed_loops(server: PrivateServer, workload: Workload) -> dict[int, float]:
    """What so many threads get that never rest, queries/s."""
    found = {}
    for threads in (*THREADS, workload.connections):
        before, start = questions(server), time.monotonic()
        sysbench(server, workload, CLOSED_LOOP, threads)
        found[threads] = (questions(server) - before) / (time.monotonic() - start)
    return found


def play(
    server: PrivateServer, workload: Workload, most: float, seconds: float
) -> Sequence[tuple[float, float]]:
    """Ask for a day; answers when (Unix seconds) what was asked for, queries/s."""
    per_event = queries_of_an_event(server, workload)
    start, asked = time.time(), []
    for _ in range(round(seconds / STEP)):
        now = time.time()
        hour = FIRST_HOUR + HOURS * min((now - start + STEP / 2) / seconds, 1.0)
        rate = most * day_share(hour)
        asked.append((round(now, 3), round(rate, 1)))
        open_loop(server, workload, STEP, rate / per_event)
    time.sleep(2 * INTERVAL)
    return asked


def queries_of_an_event(server: PrivateServer, workload: Workload) -> float:
    """How many of the server's queries one event of sysbench is."""
    before = questions(server)
    events = sysbench(server, workload, 2.0, 1)
    return (questions(server) - before) / max(events, 1)


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
