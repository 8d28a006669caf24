"""What each statement of the agent costs the server: CPU per read, on MySQL and on MariaDB.

    python bench/collector_server_cpu.py [--digests 600] [--rounds 100]

All collectors of a server read by turns, after each class was used once, on a server that does
nothing else. What a statement costs is the CPU of the session's own thread there, by the kernel,
and an answer that has arrived finds it asleep again. Means over the rounds: the texts of new
digests are asked for in the first ones alone.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from many_digest_fixture import WatchedServer, watched_server

from agent.demo.private_server import Flavour
from collectors import COLLECTORS
from collectors.connection import Connection
from collectors.result_cells import ONE_CELL, ResultLimits, ResultRow

FLAVOURS: tuple[Flavour, ...] = ("mysql", "mariadb")
IN_FLIGHT = "--performance-schema-consumer-events-statements-current=ON"
"""Off by default on MariaDB."""
CpuByStatement = dict[tuple[str, int], float]
"""Seconds of the server's CPU, by the collector and its statement's place among those of a read."""


class MeasuredConnection(Connection):
    """A session that notes what each statement of a reading cost the server."""

    watched: WatchedServer
    costs: list[float] | None = None

    def query(self, sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        """As the session has it."""
        if self.costs is None:
            return super().query(sql, limits)
        before = self.watched.session_cpu("agent")
        rows = super().query(sql, limits)
        self.costs.append(self.watched.session_cpu("agent") - before)
        return rows


def main() -> None:
    """Print a table for both servers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digests", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    found = {}
    for flavour in FLAVOURS:
        server = watched_server(args.digests, IN_FLIGHT, flavour=flavour)
        with server as watched, session(watched) as asked:
            print(watched.server.version)
            found[flavour] = measured(watched, asked, args.rounds)
    print(
        f"\n| a read, {args.digests} digests | every | MySQL, ms | MariaDB, ms |\n|---|---|---|---|"
    )
    for spec in COLLECTORS:
        if not spec.on_server:
            continue
        cells = [in_milliseconds(found[flavour], spec.name) for flavour in FLAVOURS]
        print(f"| `{spec.name}` | {spec.interval:g} s | {' | '.join(cells)} |")
    totals = [
        sum(sum(each(found[flavour], s.name)) / s.interval for s in COLLECTORS if s.on_server)
        for flavour in FLAVOURS
    ]
    print(f"| all, a second | | {' | '.join(f'{1000 * total:.2f}' for total in totals)} |")


@contextmanager
def session(watched: WatchedServer) -> Iterator[MeasuredConnection]:
    """The agent's session, open."""
    login = watched.logins["agent"]
    connection = MeasuredConnection(watched.endpoint, lambda: login, timeout=10, limit=10)
    connection.watched = watched
    connection.open()
    try:
        yield connection
    finally:
        connection.close()


def measured(watched: WatchedServer, connection: MeasuredConnection, rounds: int) -> CpuByStatement:
    """Each collector's statements, so many times; the first round is left out."""
    readers = {spec.name: spec.prepare(connection).read for spec in COLLECTORS if spec.on_server}
    costs: CpuByStatement = defaultdict(float)
    for turn in range(rounds + 1):
        watched.use_all()
        for name, read in readers.items():
            connection.costs = []
            if read is not None:
                read()
            for place, cost in enumerate(connection.costs if turn else ()):
                costs[name, place] += cost / rounds
            connection.costs = None
    return costs


def each(costs: CpuByStatement, collector: str) -> list[float]:
    """The seconds of each of a collector's statements, in their order."""
    return [cost for (name, _), cost in sorted(costs.items()) if name == collector]


def in_milliseconds(costs: CpuByStatement, collector: str) -> str:
    """Each statement's cost, with a plus between them."""
    return " + ".join(f"{1000 * cost:.2f}" for cost in each(costs, collector)) or "none"


if __name__ == "__main__":
    main()
