"""What-if answers beside what was measured once the change was made.

    python bench/what_if.py [processor] [disk] [link] [class] [server] [load]

A real MySQL, as root: half a processor by a cgroup's quota, a disk of 1,500 reads a second by
another, a link of 10 Mbit/s by tc. A closed loop finds what it serves; an open loop stays below
half of that while the agent watches, and answers what twice the processor, the disk or the link
would give; then the limit is doubled and the closed loop runs again. `class` asks what everything
else gets once a class is half as expensive, then sends half as many of its statements. `server`
asks what a second server behind the same load makes of the capacity and of the residence time, has
two real servers share the load, and reads the time of the statements from both. `load` asks at 50 %
of what is served for half of the load and, once that is there, for twice as much again; both loads
come by turns, and their times are those of all turns. The servers have the machine's first
processor and all else the second, so that they are as fast beside idle clients as beside busy ones,
and all run ahead of other programs. A virtual machine becomes slower and faster by itself: so
today's state is measured again at the end, and what is measured after the change is given at the
speed of the time of the prediction.

Without a name all of them run, a minute each. Rows have the prediction, its interval, what was
measured and the error, and below them is how much of a processor other programs used in the worst
five seconds: beyond a tenth the machine was not the bench's own, which no prediction can know. The
last lines count the checks of both kinds.
"""

import json
import os
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from other_programs_monitor import OtherPrograms
from sysbench_loads import CLIENT_CPU, give_processors
from what_if_loads import (
    CUT,
    HALF,
    HEAVY,
    LINKS,
    MBIT,
    MIX,
    OPERATIONS,
    SMALL,
    digest_of,
    mean_time,
    mixed_load,
    part_of_a_processor,
    shared_load,
    slow_disk,
    slow_link,
    timed,
)

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import ahead_of_others, cpu_quota, disk_under
from testbed.real.clients import run_as_root
from testbed.real.daemon import target, wait_until, watching
from testbed.real.io_bound_queries import OPTIONS, TABLE
from testbed.real.link_load import GUEST
from testbed.real.predicted_limit import (
    FEW_CLIENTS,
    FIT,
    OFTEN,
    SHARES,
    ClientLoad,
    most,
    watched_with_limits,
)
from testbed.real.server_programs import server_program

STEP, DEADLINE = 7.0, 30.0  # seconds
BUSY, CLIENTS = 0.5, 8
"""The part of what one server serves that is asked about, and by how many clients. For minutes the
machine serves 0.6 of what it served before; a load above that has no residence time to compare."""
CLASSES = {"interval": "8s", "digest_text": True}
NEAR = 0.15
OWN = 0.1
"""Of a processor, the most that other programs may use for the machine to be the bench's own."""
PredictedNumber = Mapping[str, Any]


@dataclass(frozen=True)
class LimitedLoad:
    """One check: the question, and a load under the limit times a factor."""

    question: Mapping[str, str]
    limited: Callable[[PrivateServer, float], AbstractContextManager[ClientLoad]]
    resources: Callable[[PrivateServer], Mapping[str, Any]] = lambda _: {}
    options: tuple[str, ...] = ()
    first: tuple[str, ...] = field(default=())


PARTS = {
    "processor": LimitedLoad({"cores": f"{2 * HALF:g}"}, part_of_a_processor),
    "disk": LimitedLoad(
        {"disk_rate": "2x", "disk_latency": "0.5x"},
        slow_disk,
        lambda s: {"disks": {disk_under(s.datadir): {"operations": OPERATIONS}}},
        OPTIONS,
        TABLE,
    ),
    "link": LimitedLoad(
        {"network": "2x"},
        slow_link,
        lambda s: {"interfaces": {LINKS[s.port]: {"bandwidth": f"{MBIT}Mbit"}}},
        ("--bind-address=0.0.0.0",),
        (f"CREATE USER guest IDENTIFIED BY '{GUEST}'",),
    ),
}


class CheckedPrediction(NamedTuple):
    """A prediction beside the truth."""

    found: PredictedNumber
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
    checks: list[CheckedPrediction] = []
    disturbed: list[CheckedPrediction] = []
    os.sched_setaffinity(0, {CLIENT_CPU})
    for name in names or [*PARTS, *OTHERS]:
        try:
            with OtherPrograms() as others, ahead_of_others(os.getpid()):
                found = measure(name)
            own = others.worst <= OWN
            doubt = "" if own else ": not its own"
            print(f"  others used {others.worst:.0%} of a processor{doubt}", flush=True)
            (checks if own else disturbed).extend(found)
        except pytest.skip.Exception as reason:
            print(f"{name:<14} {reason}")
    print(summary("on a machine of its own", checks))
    print(summary("beside other programs", disturbed))


def summary(where: str, checks: Sequence[CheckedPrediction]) -> str:
    """Count those that are near, and those within their interval."""
    near, held = sum(abs(one.error) <= NEAR for one in checks), sum(one.holds for one in checks)
    return f"{where}, of {len(checks)}: {near} within {NEAR:.0%}, {held} within their interval"


def measure(name: str) -> list[CheckedPrediction]:
    """The rows of one part."""
    part = PARTS.get(name, PARTS["processor"])
    with (
        tempfile.TemporaryDirectory() as folder,
        server_with(*part.options) as server,
    ):
        run_as_root(server, "DO 0", *part.first)
        give_processors(server.pid, 1)
        if name in OTHERS:
            return OTHERS[name](Path(folder), server)
        return twice_the_limit(name, part, Path(folder), server)


def server_with(*options: str) -> PrivateServer:
    """A MySQL that is yet to start."""
    program = server_program("mysql")
    assert program is not None, "scripts/test fetches a MySQL"
    return PrivateServer(program, options=options)


def twice_the_limit(
    name: str, part: LimitedLoad, folder: Path, server: PrivateServer
) -> list[CheckedPrediction]:
    """Ask what twice as much of it gives, then give it."""
    with part.limited(server, 1.0) as load:
        today = most(load)
        with watched_with_limits(folder, server, **part.resources(server)) as agent:
            below_half(load, today)
            answer = answered(agent.port, **part.question)
    with part.limited(server, 2.0) as load:
        truth = most(load)
    with part.limited(server, 1.0) as load:
        truth = at_that_speed(truth, today, most(load))
    return [row(name, today, answer["then"]["capacity"], truth, limits=limits_of(answer))]


def at_that_speed(measured: float, before: float, after: float) -> float:
    """Scale what was measured last by how much the same state drifted around it."""
    return measured * (before + after) / (2 * after)


def below_half(load: ClientLoad, peak: float) -> None:
    """Let clients ask for up to half of what is served at most."""
    for share in SHARES:
        with load(FEW_CLIENTS, 1 / (share * peak)):
            time.sleep(STEP)


def half_of_a_class(folder: Path, server: PrivateServer) -> list[CheckedPrediction]:
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
            answer = answered(agent.port, **question)
        truth = at_that_speed(most(cut), today, most(mix)) * then_others
    found = scaled(answer["then"]["capacity"], others)
    return [row("class, the rest", today * others, found, truth, limits=limits_of(answer))]


def second_server(folder: Path, server: PrivateServer) -> list[CheckedPrediction]:
    """Ask what a second server gives, then let two share the load."""
    with server_with() as second, cpu_quota(server.pid, HALF), cpu_quota(second.pid, HALF):
        give_processors(second.pid, 1)
        alone, both = (partial(shared_load, servers) for servers in ([server], [server, second]))
        peak = most(alone)
        lone, shared = (partial(one, CLIENTS, 1 / (BUSY * peak)) for one in (alone, both))
        with watched_with_limits(folder, server) as agent:
            below_half(alone, peak)
            today, answer = timed([server], lone(), partial(answered, agent.port, servers="2"))
        truth = most(lambda count, pace: both(2 * count, pace))
        truth = at_that_speed(truth, peak, most(alone))
        divided = mean_time([server, second], shared())
        again = mean_time([server], lone())
        divided = (divided + mean_time([server, second], shared())) / 2
    then, residence = answer["then"], at_that_speed(divided, today, again)
    return [
        row("server", peak, then["capacity"], truth, limits=limits_of(answer)),
        row("its time, ms", today, then["residence_time"], residence, 1000.0),
    ]


def half_the_load(folder: Path, server: PrivateServer) -> list[CheckedPrediction]:
    """Ask for half of the load and, at that, for twice as much; both loads come by turns."""
    with cpu_quota(server.pid, HALF):
        load = partial(shared_load, [server])
        peak = most(load)
        busy, calm = (partial(load, CLIENTS, factor / (BUSY * peak)) for factor in (1, 2))
        with watched_with_limits(folder, server) as agent:
            below_half(load, peak)
            above, half = timed([server], busy(), partial(answered, agent.port, load="0.5"))
            below, twice = timed([server], calm(), partial(answered, agent.port, load="2"))
            others = [mean_time([server], turn()) for turn in (busy, calm, busy)]
    now, then = median([above, others[0], others[2]]), (below + others[1]) / 2
    return [
        row("half, ms", above, half["then"]["residence_time"], then, 1000.0),
        row("twice, ms", below, twice["then"]["residence_time"], now, 1000.0),
    ]


OTHERS: Mapping[str, Callable[[Path, PrivateServer], list[CheckedPrediction]]] = {
    "class": half_of_a_class,
    "server": second_server,
    "load": half_the_load,
}


def answered(port: int, **question: str) -> dict[str, Any]:
    """The agent's answer, once it has one."""
    found = wait_until("answer", lambda: asked(port, question), DEADLINE)
    assert found is not None
    return found


def asked(port: int, question: Mapping[str, str]) -> dict[str, Any] | None:
    """The agent's answer; None until it knows the capacity and the load."""
    query = urllib.parse.urlencode({"target": "db", **question})
    url = f"http://127.0.0.1:{port}/api/v1/what-if?{query}"
    with urllib.request.urlopen(url, timeout=DEADLINE) as reply:
        found: dict[str, Any] = json.load(reply)
    known = found["then"]["capacity"] and found["then"]["residence_time"] and found["load"]
    return found if known else None


def scaled(found: PredictedNumber, by: float) -> PredictedNumber:
    """The same prediction of a part of the throughput."""
    return {name: None if value is None else by * value for name, value in found.items()}


def limits_of(answer: Mapping[str, Any]) -> str:
    """Name the limits that come first, today and then."""
    return f"{answer['today']['limit']}, then {answer['then']['limit']}"


def row(
    name: str,
    today: float,
    found: PredictedNumber,
    truth: float,
    unit: float = 1.0,
    limits: str = "",
) -> CheckedPrediction:
    """Print a prediction beside the truth."""
    high, check = found["upper"], CheckedPrediction(found, truth)
    bounds = f"{unit * found['lower']:.1f} to " + ("?" if high is None else f"{unit * high:.1f}")
    print(
        f"{name:<14}{unit * today:>8.1f}{unit * found['value']:>11.1f}{bounds:>18}"
        f"{unit * truth:>10.1f}{check.error:>+8.0%}  {limits}",
        flush=True,
    )
    return check


if __name__ == "__main__":
    main(sys.argv[1:])
