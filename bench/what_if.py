"""What-if answers beside what was measured once the change was made.

    python bench/what_if.py [processor] [disk] [link] [load]

A real MySQL, as root: half a processor by a cgroup's quota, a disk of 1,500 reads a second by
another, a link of 10 Mbit/s by tc. A closed loop finds what it serves; an open loop stays below
half of that while the agent watches, and answers what twice the processor, the disk or the link
would give; then the limit is doubled and the closed loop runs again. `load` asks what a second
server behind the same load would make of the residence time, halves the load, and reads what the
agent measures then. A class at half its cost is in `class_removal.py`.

Without a name all of them run, a minute each. Rows have the prediction, its interval, what was
measured, and the error.
"""

import json
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cgroups import cpu_quota, disk_under, throttled_reads
from limited_servers import FEW_CLIENTS, SHARES, Load, most, watched
from live import Clients, run_as_root, wait_until
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


def main(names: list[str]) -> None:
    """Run the parts and print a row for each."""
    print(f"{'':<10}{'today':>8}{'predicted':>11}{'90 % interval':>18}{'measured':>10}{'error':>8}")
    for name in names or [*PARTS, "load"]:
        try:
            measure(name)
        except pytest.skip.Exception as reason:
            print(f"{name:<10} {reason}")


def measure(name: str) -> None:
    """One row."""
    part = PARTS.get(name, PARTS["processor"])
    program = server_program("mysql")
    assert program is not None, "scripts/test fetches a MySQL"
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateServer(program, options=part.options) as server,
    ):
        run_as_root(server, "DO 0", *part.first)
        if name == "load":
            half_the_load(Path(folder), server)
        else:
            twice_the_limit(name, part, Path(folder), server)


def twice_the_limit(name: str, part: Part, folder: Path, server: PrivateServer) -> None:
    """Ask what twice as much of it gives, then give it."""
    with part.limited(server, 1.0) as load:
        today = most(load)
        with watched(folder, server, **part.resources(server)) as agent:
            for share in SHARES:
                with load(FEW_CLIENTS, 1 / (share * today)):
                    time.sleep(STEP)
            answer = wait_until("answer", lambda: asked(agent.port, part.question), DEADLINE)
    with part.limited(server, 2.0) as load:
        truth = most(load)
    assert answer is not None
    row(name, today, answer["then"]["capacity"], truth, 1.0)


def half_the_load(folder: Path, server: PrivateServer) -> None:
    """Ask what a second server makes of the residence time, then halve the load."""
    with cpu_quota(server.pid, HALF):
        load: Load = lambda count, pace: Clients(server, COMPUTE, count, pace=pace)  # noqa: E731
        peak = most(load)
        with watched(folder, server) as agent:
            for share in SHARES:
                with load(FEW_CLIENTS, 1 / (share * peak)):
                    time.sleep(STEP)
            with load(8, 1 / (0.7 * peak)):
                time.sleep(SETTLE)
                answer = wait_until("answer", lambda: asked(agent.port, {"servers": "2"}), DEADLINE)
            with load(8, 2 / (0.7 * peak)):
                time.sleep(SETTLE)
                after = wait_until("load", lambda: asked(agent.port, {}), DEADLINE)
    assert answer is not None
    assert after is not None
    today, truth = answer["load"]["residence_time"], after["load"]["residence_time"]
    row("load, ms", today, answer["then"]["residence_time"], truth, 1000.0)


def asked(port: int, question: Mapping[str, str]) -> dict[str, Any] | None:
    """The agent's answer; None until it knows the capacity and the load."""
    query = urllib.parse.urlencode({"target": "db", **question})
    url = f"http://127.0.0.1:{port}/api/v1/what-if?{query}"
    with urllib.request.urlopen(url, timeout=DEADLINE) as reply:
        found: dict[str, Any] = json.load(reply)
    known = found["then"]["capacity"] and found["then"]["residence_time"] and found["load"]
    return found if known else None


def row(name: str, today: float, found: Number, truth: float, unit: float) -> None:
    """Print a prediction beside the truth."""
    high = found["upper"]
    bounds = f"{unit * found['lower']:.1f} to " + ("?" if high is None else f"{unit * high:.1f}")
    value, error = found["value"], found["value"] / truth - 1
    print(
        f"{name:<10}{unit * today:>8.1f}{unit * value:>11.1f}{bounds:>18}"
        f"{unit * truth:>10.1f}{error:>+8.0%}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
