"""What-if answers beside what was measured once the change was made.

    python bench/what_if.py [processor] [disk] [link] [class] [server] [load]

A real MySQL, as root: half a processor by a cgroup's quota, a disk of 1,500 reads a second by
another, a link of 10 Mbit/s by tc. A closed loop finds what it serves; an open loop stays below
half of that while the agent watches, and answers what twice the processor, the disk or the link
would give; then the limit is doubled and the closed loop runs again. `class` asks what everything
else gets once a class is half as expensive, then sends half as many of its statements. `server`
asks what a second server behind the same load makes of the capacity and of the residence time, has
two real servers share the load, and reads the time of the statements from both. `load` does the
same with half of the load on one, as the agent measures it.

Without a name all of them run, a minute each. Rows have the prediction, its interval, what was
measured, and the error; the last line counts them.
"""

import itertools
import json
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cgroups import cpu_quota, disk_under, throttled_reads
from limited_servers import FEW_CLIENTS, FIT, OFTEN, SHARES, Load, most, watched
from live import Ask, Clients, root, run_as_root, target, wait_until, watching
from namespaces import slow_cable
from servers import server_program
from test_live_limits_disk import OPTIONS, TABLE
from test_live_limits_disk import STATEMENT as READ
from test_live_limits_link import GUEST, session_from
from test_live_limits_link import STATEMENT as SEND

from agent.demo.server import PrivateServer

COMPUTE = "DO BENCHMARK(300000, 1 + 1)"
HALF, OPERATIONS, MBIT = 0.5, 1500, 10
STEP, SETTLE, DEADLINE = 7.0, 8.0, 30.0  # seconds
BUSY, CLIENTS = 0.7, 8
"""The part of what one server serves that is asked about, and by how many clients."""
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
CLASSES = {"interval": "8s", "digest_text": True}
TIME_AND_CALLS = """
SELECT SUM(SUM_TIMER_WAIT) / 1e12, SUM(COUNT_STAR)
  FROM performance_schema.events_statements_summary_by_digest
 WHERE DIGEST_TEXT LIKE 'DO `BENCHMARK`%'"""
NEAR = 0.15
Number = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One check: the question, and a load under the limit times a factor."""

    question: Mapping[str, str]
    limited: Callable[[PrivateServer, float], AbstractContextManager[Load]]
    resources: Callable[[PrivateServer], Mapping[str, Any]] = lambda _: {}
    options: tuple[str, ...] = ()
    first: tuple[str, ...] = field(default=())


@contextmanager
def part_of_a_processor(server: PrivateServer, factor: float) -> Iterator[Load]:
    """Statements that compute, within a quota."""
    with cpu_quota(server.pid, factor * HALF):
        yield lambda count, pace: Clients(server, COMPUTE, count, pace=pace)


@contextmanager
def slow_disk(server: PrivateServer, factor: float) -> Iterator[Load]:
    """Statements that read, from a disk that allows so many reads."""
    with throttled_reads(server.pid, disk_under(server.datadir), round(factor * OPERATIONS)):
        yield lambda count, pace: Clients(server, READ, count, pace=pace)


@contextmanager
def slow_link(server: PrivateServer, factor: float) -> Iterator[Load]:
    """Statements with long answers, from clients behind a slow cable."""
    with slow_cable(f"{round(factor * MBIT)}mbit") as there:
        session = partial(session_from, there)
        load = partial(Clients, server, SEND, session=session)
        LINKS[server.port] = there.interface
        yield lambda count, pace: load(count, pace=pace)


LINKS: dict[int, str] = {}
"""The cable's end on this host, by the server's port."""
PARTS = {
    "processor": Part({"cores": f"{2 * HALF:g}"}, part_of_a_processor),
    "disk": Part(
        {"disk_rate": "2x", "disk_latency": "0.5x"},
        slow_disk,
        lambda s: {"disks": {disk_under(s.datadir): {"operations": OPERATIONS}}},
        OPTIONS,
        TABLE,
    ),
    "link": Part(
        {"network": "2x"},
        slow_link,
        lambda s: {"interfaces": {LINKS[s.port]: {"bandwidth": f"{MBIT}Mbit"}}},
        ("--bind-address=0.0.0.0",),
        (f"CREATE USER guest IDENTIFIED BY '{GUEST}'",),
    ),
}


class Check(NamedTuple):
    """A prediction beside the truth."""

    found: Number
    truth: float

    @property
    def error(self) -> float:
        """The prediction over the truth, less 1."""
        return float(self.found["value"]) / self.truth - 1

    @property
    def holds(self) -> bool:
        """Whether the truth lies in the 90 % interval."""
        high = self.found["upper"]
        return bool(self.found["lower"] <= self.truth and (high is None or self.truth <= high))


def main(names: list[str]) -> None:
    """Run the parts and print a row for each."""
    print(f"{'':<14}{'today':>8}{'predicted':>11}{'90 % interval':>18}{'measured':>10}{'error':>8}")
    checks: list[Check] = []
    for name in names or [*PARTS, *OTHERS]:
        try:
            checks += measure(name)
        except pytest.skip.Exception as reason:
            print(f"{name:<14} {reason}")
    near, held = sum(abs(one.error) <= NEAR for one in checks), sum(one.holds for one in checks)
    print(f"of {len(checks)}: {near} within {NEAR:.0%}, {held} within their interval")


def measure(name: str) -> list[Check]:
    """The rows of one part."""
    part = PARTS.get(name, PARTS["processor"])
    with (
        tempfile.TemporaryDirectory() as folder,
        server_with(*part.options) as server,
    ):
        run_as_root(server, "DO 0", *part.first)
        if name in OTHERS:
            return OTHERS[name](Path(folder), server)
        return twice_the_limit(name, part, Path(folder), server)


def server_with(*options: str) -> PrivateServer:
    """A MySQL that is yet to start."""
    program = server_program("mysql")
    assert program is not None, "scripts/test fetches a MySQL"
    return PrivateServer(program, options=options)


def twice_the_limit(name: str, part: Part, folder: Path, server: PrivateServer) -> list[Check]:
    """Ask what twice as much of it gives, then give it."""
    with part.limited(server, 1.0) as load:
        today = most(load)
        with watched(folder, server, **part.resources(server)) as agent:
            below_half(load, today)
            answer = wait_until("answer", lambda: asked(agent.port, part.question), DEADLINE)
    with part.limited(server, 2.0) as load:
        truth = most(load)
    assert answer is not None
    return [row(name, today, answer["then"]["capacity"], truth)]


def below_half(load: Load, peak: float) -> None:
    """Let clients ask for up to half of what is served at most."""
    for share in SHARES:
        with load(FEW_CLIENTS, 1 / (share * peak)):
            time.sleep(STEP)


def half_of_a_class(folder: Path, server: PrivateServer) -> list[Check]:
    """Ask what the others get once a class is half as expensive, then send half as many of it."""
    run_as_root(server, *SMALL)
    there = target(folder, server)
    mix, cut = (partial(mixed_load, server, statements) for statements in (MIX, CUT))
    others, then_others = (1 - deck.count(HEAVY) / len(deck) for deck in (MIX, CUT))
    with cpu_quota(server.pid, HALF):
        today = most(mix)
        with watching(folder, there, fit=FIT, collectors=OFTEN, classes=CLASSES) as agent:
            below_half(mix, today)
            question = {"query": f"{digest_of(server, HEAVY)}=0.5x"}
            answer = wait_until("answer", lambda: asked(agent.port, question), DEADLINE)
        truth = most(cut) * then_others
    assert answer is not None
    found = scaled(answer["then"]["capacity"], others)
    return [row("class, the rest", today * others, found, truth)]


def second_server(folder: Path, server: PrivateServer) -> list[Check]:
    """Ask what a second server gives, then let two share the load."""
    with server_with() as second, cpu_quota(server.pid, HALF), cpu_quota(second.pid, HALF):
        alone, both = (partial(shared_load, servers) for servers in ([server], [server, second]))
        peak = most(alone)
        with watched(folder, server) as agent:
            below_half(alone, peak)
            with alone(CLIENTS, 1 / (BUSY * peak)):
                time.sleep(SETTLE)
                answer = wait_until("answer", lambda: asked(agent.port, {"servers": "2"}), DEADLINE)
        truth = most(lambda count, pace: both(2 * count, pace))
        residence = mean_time([server, second], lambda: both(CLIENTS, 1 / (BUSY * peak)))
    assert answer is not None
    then, today = answer["then"], answer["load"]["residence_time"]
    return [
        row("server", peak, then["capacity"], truth),
        row("its time, ms", today, then["residence_time"], residence, 1000.0),
    ]


def half_the_load(folder: Path, server: PrivateServer) -> list[Check]:
    """Ask what a second server makes of the residence time, then halve the load."""
    with cpu_quota(server.pid, HALF):
        load = partial(shared_load, [server])
        peak = most(load)
        with watched(folder, server) as agent:
            below_half(load, peak)
            with load(CLIENTS, 1 / (BUSY * peak)):
                time.sleep(SETTLE)
                answer = wait_until("answer", lambda: asked(agent.port, {"servers": "2"}), DEADLINE)
            with load(CLIENTS, 2 / (BUSY * peak)):
                time.sleep(SETTLE)
                after = wait_until("load", lambda: asked(agent.port, {}), DEADLINE)
    assert answer is not None
    assert after is not None
    today, truth = answer["load"]["residence_time"], after["load"]["residence_time"]
    return [row("load, ms", today, answer["then"]["residence_time"], truth, 1000.0)]


OTHERS: Mapping[str, Callable[[Path, PrivateServer], list[Check]]] = {
    "class": half_of_a_class,
    "server": second_server,
    "load": half_the_load,
}


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


def mean_time(servers: Sequence[PrivateServer], load: Callable[[], Clients]) -> float:
    """Seconds that a statement of this load takes, by the servers' own count."""
    with load():
        time.sleep(1.0)
        before = spent(servers)
        time.sleep(SETTLE)
        seconds, calls = (after - was for after, was in zip(spent(servers), before, strict=True))
    return seconds / calls


def spent(servers: Sequence[PrivateServer]) -> tuple[float, float]:
    """Seconds of statements that compute, and how many there were, on all servers."""
    rows = [run_as_root(server, TIME_AND_CALLS)[0] for server in servers]
    return sum(float(row[0]) for row in rows), sum(float(row[1]) for row in rows)


def digest_of(server: PrivateServer, statement: str) -> str:
    """The digest of a statement."""
    quoted = statement.replace("'", "''")
    return str(run_as_root(server, f"SELECT STATEMENT_DIGEST('{quoted}')")[0][0])


def asked(port: int, question: Mapping[str, str]) -> dict[str, Any] | None:
    """The agent's answer; None until it knows the capacity and the load."""
    query = urllib.parse.urlencode({"target": "db", **question})
    url = f"http://127.0.0.1:{port}/api/v1/what-if?{query}"
    with urllib.request.urlopen(url, timeout=DEADLINE) as reply:
        found: dict[str, Any] = json.load(reply)
    known = found["then"]["capacity"] and found["then"]["residence_time"] and found["load"]
    return found if known else None


def scaled(found: Number, by: float) -> Number:
    """The same prediction of a part of the throughput."""
    return {name: None if value is None else by * value for name, value in found.items()}


def row(name: str, today: float, found: Number, truth: float, unit: float = 1.0) -> Check:
    """Print a prediction beside the truth."""
    high, check = found["upper"], Check(found, truth)
    bounds = f"{unit * found['lower']:.1f} to " + ("?" if high is None else f"{unit * high:.1f}")
    print(
        f"{name:<14}{unit * today:>8.1f}{unit * found['value']:>11.1f}{bounds:>18}"
        f"{unit * truth:>10.1f}{check.error:>+8.0%}",
        flush=True,
    )
    return check


if __name__ == "__main__":
    main(sys.argv[1:])
