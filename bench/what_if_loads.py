"""The loads of `what_if.py`, and the limits that their servers are under."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import cpu_quota, disk_under, throttled_reads
from testbed.real.clients import Ask, Clients, root, run_as_root
from testbed.real.io_bound_queries import STATEMENT as READ
from testbed.real.link_load import STATEMENT as SEND
from testbed.real.link_load import session_from
from testbed.real.namespaces import slow_cable
from testbed.real.predicted_limit import ClientLoad

COMPUTE = "DO BENCHMARK(300000, 1 + 1)"
HALF, OPERATIONS, MBIT = 0.5, 1500, 10
LIGHT, HEAVY = COMPUTE, "SELECT SUM(CRC32(REPEAT(v, 200))) FROM bench.small"
MIX, CUT = (LIGHT,) * 3 + (HEAVY,), (LIGHT,) * 6 + (HEAVY,)
"""What a client asks, over and over; the second has half as many of the heavy class."""
NEXT = "DO 'the next of the mix'"
SMALL = (
    "CREATE DATABASE bench",
    "CREATE TABLE bench.small (v INT)",
    "INSERT INTO bench.small SELECT n FROM JSON_TABLE(CONCAT('[', REPEAT('0,', 4999), '0]'),"
    " '$[*]' COLUMNS (n FOR ORDINALITY)) AS numbers",
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE '%_cpu'",
)
SETTLE = 8.0  # seconds
TIME_AND_CALLS = """
SELECT SUM(SUM_TIMER_WAIT) / 1e12, SUM(COUNT_STAR)
  FROM performance_schema.events_statements_summary_by_digest
 WHERE DIGEST_TEXT LIKE 'DO `BENCHMARK`%'"""
Returned = TypeVar("Returned")
LINKS: dict[int, str] = {}
"""The cable's end on this host, by the server's port."""


@contextmanager
def part_of_a_processor(server: PrivateServer, factor: float) -> Iterator[ClientLoad]:
    """Statements that compute, within a quota."""
    with cpu_quota(server.pid, factor * HALF):
        yield lambda count, pace: Clients(server, COMPUTE, count, pace=pace)


@contextmanager
def slow_disk(server: PrivateServer, factor: float) -> Iterator[ClientLoad]:
    """Statements that read, from a disk that allows so many reads."""
    with throttled_reads(server.pid, disk_under(server.datadir), round(factor * OPERATIONS)):
        yield lambda count, pace: Clients(server, READ, count, pace=pace)


@contextmanager
def slow_link(server: PrivateServer, factor: float) -> Iterator[ClientLoad]:
    """Statements with long answers, from clients behind a slow cable."""
    with slow_cable(f"{round(factor * MBIT)}mbit") as there:
        session = partial(session_from, there)
        load = partial(Clients, server, SEND, session=session)
        LINKS[server.port] = there.interface
        yield lambda count, pace: load(count, pace=pace)


def shared_load(servers: Sequence[PrivateServer], count: int, pace: float) -> Clients:
    """Clients that compute, divided over the servers, with one pace for all."""
    turn = itertools.cycle(servers)
    return Clients(servers[0], COMPUTE, count, pace=pace, session=lambda _: root(next(turn)))


def mixed_load(
    server: PrivateServer, statements: Sequence[str], count: int, pace: float
) -> Clients:
    """Clients that each ask one of the statements after the other."""
    return Clients(server, NEXT, count, pace=pace, session=partial(session_of, statements))


@contextmanager
def session_of(statements: Sequence[str], server: PrivateServer) -> Iterator[Ask]:
    """A session in which `NEXT` is the next of the statements."""
    turn = itertools.cycle(statements)
    with root(server) as ask:
        yield lambda asked: ask(next(turn) if asked == NEXT else asked)


def mean_time(servers: Sequence[PrivateServer], load: Clients) -> float:
    """Seconds that a statement of this load takes, by the servers' own count."""
    return timed(servers, load, lambda: None)[0]


def timed(
    servers: Sequence[PrivateServer], load: Clients, ask: Callable[[], Returned]
) -> tuple[float, Returned]:
    """Seconds that a statement of this load takes, and what is answered while it still runs."""
    with load:
        time.sleep(1.0)
        before = spent(servers)
        time.sleep(SETTLE)
        seconds, calls = (after - was for after, was in zip(spent(servers), before, strict=True))
        return seconds / calls, ask()


def spent(servers: Sequence[PrivateServer]) -> tuple[float, float]:
    """Seconds of statements that compute, and how many there were, on all servers."""
    rows = [run_as_root(server, TIME_AND_CALLS)[0] for server in servers]
    return sum(float(row[0]) for row in rows), sum(float(row[1]) for row in rows)


def digest_of(server: PrivateServer, statement: str) -> str:
    """The digest of a statement."""
    quoted = statement.replace("'", "''")
    return str(run_as_root(server, f"SELECT STATEMENT_DIGEST('{quoted}')")[0][0])
