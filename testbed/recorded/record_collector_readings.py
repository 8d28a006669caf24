"""Record what the collectors read from a real server under a rising load, for the golden page.

    python -m testbed.recorded.record_collector_readings mysql|mariadb [--seconds 100]
        [--no-performance-schema]

Writes tests/fixtures/<flavour>-<version>[-no-schema].jsonl.gz: a line a sample, and first a line of
what the server is and offers. The clock of the recording starts at 1000 s.
"""

import argparse
import gzip
import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.demo.private_server import PrivateServer
from collectors import COLLECTORS
from collectors.base import Sample
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from testbed.real.server_programs import ROOT, server_program

FIXTURES = ROOT / "tests" / "fixtures"
CLIENTS = 16
START = 1000.0
HOST_NAMES = ("cpu", "process")  # the rest differs from machine to machine and is not needed


def record(server: PrivateServer, seconds: float) -> list[dict[str, Any]]:
    """Record every collector's samples, each second, while the number of clients rises."""
    connection = Connection(
        Endpoint(socket=server.socket), lambda: Login("root"), timeout=3, limit=0.4
    )
    connection.open()
    prepared = {spec.name: spec.prepare(connection) for spec in COLLECTORS}
    features = [asdict(feature) for found in prepared.values() for feature in found.features]
    lines: list[dict[str, Any]] = [{"server": connection.flavour, "features": features}]
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        for name, found in prepared.items():
            if found.read is not None:
                values = {k: v for k, v in found.read().items() if kept(name, k)}
                at = time.monotonic() - begin + START
                lines.append({"collector": name, "at": round(at, 6), "values": values})
        time.sleep(max(0.0, now + 1.0 - (time.monotonic() - begin)))
    connection.close()
    return lines


def kept(collector: str, name: str) -> bool:
    """Return whether a value belongs in the recording."""
    return collector != "host" or name.startswith(HOST_NAMES)


def run_client(server: PrivateServer, stop: threading.Event, wait: float) -> None:
    """Run one client after a delay: short reads, a hot row, and pauses within the server."""
    if stop.wait(wait):
        return
    with server.connect_as_root() as session, session.cursor() as cursor:
        session.select_db("headroom_load")
        while not stop.is_set():
            cursor.execute("SELECT SLEEP(0.004)")
            cursor.execute("SELECT COUNT(*) FROM t WHERE id > 100")
            cursor.execute("UPDATE t SET n = n + 1 WHERE id = 1")
            session.commit()


def main() -> None:
    """Start the server and its load, record, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flavour", choices=["mysql", "mariadb"])
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--no-performance-schema", action="store_true")
    args = parser.parse_args()
    program = server_program(args.flavour)
    assert program is not None, f"no {args.flavour} here"
    with PrivateServer(program, performance_schema=not args.no_performance_schema) as server:
        with server.connect_as_root() as session, session.cursor() as cursor:
            cursor.execute("CREATE DATABASE headroom_load")
            cursor.execute("CREATE TABLE headroom_load.t (id INT PRIMARY KEY, n INT)")
            rows = ",".join(f"({i},0)" for i in range(1, 401))
            cursor.execute(f"INSERT INTO headroom_load.t VALUES {rows}")
            session.commit()
        stop = threading.Event()
        step = args.seconds / (CLIENTS + 1)
        clients = [
            threading.Thread(target=run_client, args=(server, stop, i * step))
            for i in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        lines = record(server, args.seconds)
        stop.set()
        for client in clients:
            client.join()
    suffix = "-no-schema" if args.no_performance_schema else ""
    path = FIXTURES / f"{program.flavour}-{program.version}{suffix}.jsonl.gz"
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path, len(lines), path.stat().st_size)


def recorded(path: Path) -> tuple[dict[str, Any], list[Sample]]:
    """Return the server, its features, and the samples in their order."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return lines[0], [Sample(**line) for line in lines[1:]]


if __name__ == "__main__":
    main()
