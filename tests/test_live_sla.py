"""The load at which a real server breaks its SLA: predicted from half of the load, then met.

Of two query classes the one that was expected to breaks its own first.
"""

import time
from pathlib import Path

import pytest
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import ConfigData, Daemon, Page, is_root, target, wait_until, watching
from testbed.real.predicted_limit import FEW_CLIENTS, FIT, OFTEN, SHARES, ClientLoad

COMPUTE = "DO BENCHMARK(300000, 1 + 1)"
HALF = 0.5  # of a processor
AT_SLA = 4
"""Clients that never rest, whose mean response time is taken for the SLA."""
FEWER, MORE = 2, 8
"""Clients whose mean response time is surely shorter and longer than that."""
STEP, CLOSED_LOOP = 2.5, 2.0  # seconds
SLACK = 0.15
"""The processor that others leave to the server differs between the prediction and the truth."""
DEADLINE = 60.0
LIKELIER = 0.9
"""Of the two classes; what is left of 1 is the probability that the capacity comes first,
which is large where other work on this machine makes the capacity uncertain."""
QUICK, QUICK_PACE, PATIENT = "SELECT BENCHMARK(300, 1 + 1)", 0.05, 2.0
"""Another class of statements, how often one comes, and how long 95 % of them may take (s)."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not is_root(), reason="only root limits a processor"),
]


def test_the_load_that_breaks_the_sla_is_predicted_from_half_of_it(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """On half a processor: measured response times cross the SLA where predicted."""
    server = private_server("mysql")
    load: ClientLoad = lambda count, pace: Clients(server, COMPUTE, count, pace=pace)  # noqa: E731
    with cpu_quota(server.pid, HALF):
        before = served(load, AT_SLA)
        sla = AT_SLA / before
        classes = [
            {"digest": digest_of(server, COMPUTE), "seconds": sla / 2, "quantile": 0.5},
            {"digest": digest_of(server, QUICK), "seconds": PATIENT},
        ]
        there = {**target(tmp_path, server), "sla_seconds": sla, "class_slas": classes}
        others = Clients(server, QUICK, pace=QUICK_PACE)
        with watching(tmp_path, there, fit=FIT, collectors=OFTEN) as agent, others:
            page = predicted(agent, load, before)
            with load(MORE, 0.0):
                wait_until("the class is over", lambda: is_over(agent, classes[0]), DEADLINE)
                broken = agent.page
        fewer, after, more = (served(load, count) for count in (FEWER, AT_SLA, MORE))
    assert FEWER / fewer < sla < MORE / more
    assert_met(page, (before + after) / 2)
    assert_is_first(page, broken, classes[0], classes[1])


def digest_of(server: PrivateServer, statement: str) -> str:
    """The digest under which the server counts a statement."""
    return str(run_as_root(server, f"SELECT STATEMENT_DIGEST('{statement}')")[0][0])


def of_class(page: Page, name: str, sla: ConfigData) -> float:
    """One number of a class that has an SLA."""
    value = page.get(name, digest=sla["digest"])
    assert value is not None, (name, page.text)
    return value


def is_over(agent: Daemon, sla: ConfigData) -> bool:
    """Whether the class's response times are beyond its SLA."""
    time = agent.get("query_response_time_seconds", digest=sla["digest"])
    return time is not None and time > sla["seconds"]


def assert_is_first(before: Page, after: Page, first: ConfigData, last: ConfigData) -> None:
    """The class that broke its SLA was expected to be the first, at more load than there was."""
    slow, quick = (of_class(before, "query_sla_first_probability", one) for one in (first, last))
    ratios = [of_class(before, "query_sla_load_ratio", one) for one in (first, last)]
    grown = after.get("throughput_queries_per_second"), before.get("throughput_queries_per_second")
    print(f"first with {slow}, the other with {quick}; at {ratios} times the load, grown {grown}")
    assert slow > LIKELIER * (slow + quick)
    assert 1 < ratios[0] <= ratios[1]
    for one in (first, last):
        assert of_class(before, "query_response_time_seconds", one) < one["seconds"]
    assert of_class(after, "query_response_time_seconds", last) < last["seconds"]


def served(load: ClientLoad, count: int) -> float:
    """Statements per second of so many clients that never rest; each takes count/X (Little)."""
    with load(count, 0.0) as clients:
        time.sleep(CLOSED_LOOP / 3)
        done, begun = clients.done, time.monotonic()
        time.sleep(CLOSED_LOOP)
        return (clients.done - done) / (time.monotonic() - begun)


def predicted(agent: Daemon, load: ClientLoad, peak: float) -> Page:
    """Load the server with at most half of what it serves, until the agent names where it ends."""
    for share in SHARES:
        with load(FEW_CLIENTS, 1 / (share * peak)):
            time.sleep(STEP)
    with load(FEW_CLIENTS, 1 / (SHARES[-1] * peak)):
        name = "sla_throughput_queries_per_second"
        wait_until("prediction", lambda: agent.get(name), DEADLINE)
    return agent.page


def assert_met(page: Page, truth: float) -> None:
    """The SLA is not broken yet, some is left, and it ends at the throughput that was measured."""
    names = ("", "lower_", "upper_")
    value, low, high = (page.get(f"sla_throughput_{n}queries_per_second") for n in names)
    now, sla = page.get("residence_time_seconds"), page.get("sla_seconds")
    left = page.get("sla_headroom_ratio")
    print(f"R {now} s, SLA {sla} s, {left} left; {value} [{low}, {high}]; {truth}/s is the truth")
    assert value is not None
    assert low is not None
    assert now is not None
    assert sla is not None
    assert left is not None
    assert now < sla
    assert 0 < left < 1
    assert low <= value
    assert (1 - SLACK) * low < truth < (1 + SLACK) * (high or truth)
