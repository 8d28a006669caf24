"""The load at which the mean residence time crosses an SLA: predicted from half of it, then met.

    python bench/sla.py [processor] [quota] [disk] [locks] [--flavour mariadb] [--times 5]

A real server, as root: one processor, half of one by a cgroup's quota, a disk of 1,500 reads a
second, or a row that every statement holds for 12 ms. A closed loop finds what it serves;
statements then arrive at random below half of that while the agent watches and predicts where the
mean residence time is `--times` that of a server at a tenth of its load. Then the load rises in
steps, and the crossing is interpolated between the means that the server itself counted. A minute
and a half each.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from pathlib import Path

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import cpu_quota, disk_under, throttled_reads
from testbed.real.clients import Clients, Threads, root, run_as_root
from testbed.real.daemon import Page, PlausiblePage, target, wait_until, watching
from testbed.real.io_bound_queries import OPTIONS, TABLE
from testbed.real.io_bound_queries import STATEMENT as READ
from testbed.real.predicted_limit import FIT, OFTEN, SHARES, most
from testbed.real.server_programs import server_program

COMPUTE = "DO BENCHMARK(1000000, 1 + 1)"
SHORT = "DO BENCHMARK(300000, 1 + 1)"
ROW = ("CREATE DATABASE one", "CREATE TABLE one.row (id INT PRIMARY KEY, a INT)")
HOLD = "UPDATE one.row SET a = a + 1 + SLEEP(0.012) WHERE id = 1"
FIRST = (*ROW, "INSERT INTO one.row VALUES (1, 0)")
HALF, OPERATIONS = 0.5, 1500
WORKERS = 24
STEP, SETTLE, DEADLINE = 3.0, 5.0, 20.0  # seconds
LATE = 0.01
"""Seconds: what should have arrived before, while this machine did other work, never arrives."""
RISING = (0.45, 0.55, 0.65, 0.75, 0.82, 0.89, 0.95, 1.0, 1.1)
Point = tuple[float, float]


class RandomArrivals(Threads):
    """Statements that arrive at random at a rate (1/s), and are begun at once or by a free one."""

    def __init__(self, server: PrivateServer, statement: str, rate: float) -> None:
        super().__init__([self._work] * WORKERS)
        self._server, self._statement, self._rate = server, statement, rate
        self._random, self._lock = random.Random(1), threading.Lock()
        self._next = time.monotonic() + 0.2

    def _work(self) -> None:
        with root(self._server) as ask:
            while not self._stop.wait(max(self._due() - time.monotonic(), 0.0)):
                ask(self._statement)

    def _due(self) -> float:
        """When the next statement arrives."""
        with self._lock:
            self._next = max(self._next, time.monotonic() - LATE)
            self._next += self._random.expovariate(self._rate)
            return self._next


@dataclass(frozen=True)
class FilledServer:
    """One server: what fills it, and with which statement."""

    statement: str
    limited: Callable[[PrivateServer], AbstractContextManager[object]]
    options: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    disk: bool = False


@contextmanager
def unlimited(_: PrivateServer) -> Iterator[None]:
    """Nothing but its own locks."""
    yield


@contextmanager
def one_processor(server: PrivateServer) -> Iterator[None]:
    """One processor alone, ahead of all other work: two that share a core slow each other down."""
    with cpu_quota(server.pid, 1.0):
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {0})
        yield


PARTS = {
    "processor": FilledServer(COMPUTE, one_processor),
    "quota": FilledServer(SHORT, lambda server: cpu_quota(server.pid, HALF)),
    "disk": FilledServer(
        READ,
        lambda server: throttled_reads(server.pid, disk_under(server.datadir), OPERATIONS),
        OPTIONS,
        TABLE,
        disk=True,
    ),
    "locks": FilledServer(HOLD, unlimited, first=FIRST),
}


def main() -> None:
    """Run the parts and print a row for each."""
    options = argparse.ArgumentParser(description="predicted and measured loads at an SLA")
    options.add_argument("parts", nargs="*", default=list(PARTS))
    options.add_argument("--flavour", default="mysql", choices=("mysql", "mariadb"))
    options.add_argument("--times", type=float, default=5.0)
    given = options.parse_args()
    print(
        f"{'':<20}{'SLA, ms':>9}{'predicted':>11}{'90 % interval':>18}{'measured':>10}{'error':>8}"
    )
    for name in given.parts:
        measure(name, given.flavour, given.times)


def measure(name: str, flavour: str, times: float) -> None:
    """One row."""
    part, program = PARTS[name], server_program(flavour)
    assert program is not None, f"scripts/test fetches a {flavour}"
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateServer(program, options=part.options) as server,
    ):
        run_as_root(server, "DO 0", *part.first)
        with part.limited(server):
            peak = most(lambda count, pace: Clients(server, part.statement, count, pace=pace))
            with RandomArrivals(server, part.statement, SHARES[0] * peak):
                sla = times * steady(server, part.statement)[1]
            said = predicted(Path(folder), server, part, peak, sla)
            seen = [mean_at(server, part.statement, share * peak) for share in RISING]
            light = mean_at(server, part.statement, SHARES[0] * peak)[1]
    print(f"{name + ' ' + flavour:<20}{1000 * sla:>9.1f}{said}{crossing(seen, sla)}")
    before, after = 1000 * sla / times, 1000 * light
    print(f"  lightly loaded {before:.1f} ms before, {after:.1f} ms after; peak {peak:.0f}/s")
    print("  " + ", ".join(f"{x:.0f}/s {1000 * r:.1f} ms" for x, r in seen), flush=True)


def mean_at(server: PrivateServer, statement: str, rate: float) -> Point:
    """Throughput and mean residence time at that rate of arrivals."""
    with RandomArrivals(server, statement, rate):
        return steady(server, statement)


def steady(server: PrivateServer, statement: str) -> Point:
    """X and R over some seconds, as the server counts them for that statement."""
    time.sleep(1.0)
    before, begun = counted(server, statement), time.monotonic()
    time.sleep(SETTLE)
    after, seconds = counted(server, statement), time.monotonic() - begun
    calls = after[0] - before[0]
    return calls / seconds, (after[1] - before[1]) / max(calls, 1.0)


def counted(server: PrivateServer, statement: str) -> Point:
    """Calls and seconds of the statements that begin with the same word."""
    word = statement.split()[0]
    with root(server) as ask:
        [(calls, picoseconds)] = ask(
            "SELECT COALESCE(SUM(COUNT_STAR), 0), COALESCE(SUM(SUM_TIMER_WAIT), 0) "
            "FROM performance_schema.events_statements_summary_by_digest "
            f"WHERE DIGEST_TEXT LIKE '{word} %' AND DIGEST_TEXT NOT LIKE '%performance_schema%'"
        )
    return float(calls), float(picoseconds) / 1e12


def predicted(
    folder: Path, server: PrivateServer, part: FilledServer, peak: float, sla: float
) -> str:
    """Watch below half of the peak, then what the agent says of the SLA."""
    there = {**target(folder, server), "sla_seconds": sla}
    disks = {disk_under(server.datadir): {"operations": OPERATIONS}} if part.disk else {}
    resources, sane = {"disks": disks}, PlausiblePage(queries=1e5, threads=1e3)
    said = ""
    with (
        suppress(AssertionError),  # of pages that were late on a busy machine
        watching(folder, there, sane=sane, fit=FIT, collectors=OFTEN, resources=resources) as agent,
    ):
        for share in SHARES[:-1]:
            with RandomArrivals(server, part.statement, share * peak):
                time.sleep(STEP)
        with RandomArrivals(server, part.statement, SHARES[-1] * peak):
            time.sleep(2 * STEP)
            with suppress(AssertionError):  # a reason instead is an answer, too
                name = "sla_throughput_queries_per_second"
                wait_until("throughput", lambda: agent.get(name), DEADLINE)
            said = answer(agent.page)
    return said


def answer(page: Page) -> str:
    """The columns of the prediction, or the reason why there is none."""
    bounds = ("", "lower_", "upper_")
    known = [page.get(f"capacity_{n}queries_per_second") for n in bounds]
    shown = ", ".join("?" if one is None else f"{one:.1f}" for one in known)
    now, load = page.get("residence_time_seconds"), page.get("throughput_queries_per_second")
    print(f"  {load or 0:.1f}/s take {1000 * (now or 0):.1f} ms, capacity {shown}")
    value, low, high = (page.get(f"sla_throughput_{n}queries_per_second") for n in bounds)
    if value is None or low is None:
        reasons = [dict(labels)["reason"] for name, labels in page.samples if "sla_reason" in name]
        return f"{reasons[0] if reasons else 'no SLA':>29}"
    return f"{value:>11.1f}{f'{low:.1f} to ' + (f'{high:.1f}' if high else '?'):>18}"


def crossing(seen: list[Point], sla: float) -> str:
    """Where R first passes the SLA, between two neighbours by ln R."""
    if seen[0][1] >= sla:
        return f"   below {seen[0][0]:.1f}"
    for (x, r), (more, longer) in pairwise(seen):
        if longer >= sla:
            share = log(sla / r) / max(log(longer / r), 1e-9)
            return f"{exp(log(x) + share * (log(more) - log(x))):>10.1f}"
    return f"   above {seen[-1][0]:.1f}"


if __name__ == "__main__":
    main()
