"""Record a real server on which reports fill the processor at the busiest hour.

    python bench/record_reports.py [--flavour mysql|mariadb] FILE

The server has one processor, as in `real_servers.py`. Point reads of an open loop rise and fall six
times, up to half of what their connections can get, and beside the last three tops two sessions run
reports over and over. `FILE` (.json.gz) has the agent's intervals, and that throughput before and
after them, as the peaks.
"""

import argparse
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sysbench_loads import DATABASE, closed_loop, loaded_server, open_loop, overload

from agent.demo.private_server import PrivateServer
from testbed.real.agent_in_process import watched, window_of

INTERVAL, STEP, MOMENT = 2.0, 6.0, 6.0
"""Seconds of the agent's intervals, of each rate, and of a measurement of the peak."""
SHARES = (0.15, 0.25, 0.35, 0.45, 0.5, 0.4, 0.3, 0.2)
LAST = (0.35, 0.3, 0.25, 0.2)
BUSIEST = 0.4
"""From this share of the peak on reports run."""
WAVES, SESSIONS, OVERLOAD = 6, 2, 1.5
REPORT = (
    "SELECT COUNT(*) FROM sbtest1 a JOIN sbtest1 b ON b.id BETWEEN a.id AND a.id + 300"
    " WHERE a.id < 1500 AND a.k + b.k > 3"
)


@contextmanager
def reports(server: PrivateServer) -> Iterator[threading.Event]:
    """Have sessions that run reports while the event is set, until the block ends."""
    running, ended = threading.Event(), threading.Event()

    def run() -> None:
        with server.connect_as_root() as session, session.cursor() as cursor:
            cursor.execute(f"USE {DATABASE}")
            while not ended.is_set():
                if running.wait(0.2):
                    cursor.execute(REPORT)

    sessions = [threading.Thread(target=run) for _ in range(SESSIONS)]
    for session in sessions:
        session.start()
    try:
        yield running
    finally:
        running.clear()
        ended.set()
        for session in sessions:
            session.join()


def main() -> None:
    """Record, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    with loaded_server(args.flavour, "points") as (server, workload, title):
        per_event, best = closed_loop(server, workload, MOMENT, workload.connections)
        arrivals = OVERLOAD * best.throughput / per_event
        peak = overload(server, workload, MOMENT, arrivals).throughput
        with reports(server) as running, watched(server, INTERVAL) as agent:
            for wave in range(WAVES):
                for share in SHARES:
                    (running.set if wave >= WAVES / 2 and share >= BUSIEST else running.clear)()
                    open_loop(server, workload, STEP, share * peak / per_event)
            running.clear()
            for share in LAST:
                open_loop(server, workload, STEP, share * peak / per_event)
            rows = [row._asdict() for row in window_of(agent).as_intervals]
        peaks = [peak, overload(server, workload, MOMENT, arrivals).throughput]
    text = json.dumps({"name": f"{title}, and reports", "peaks": peaks, "intervals": rows})
    args.file.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
