"""What-if answers, checked for real: twice as much of a limit is predicted, and then given."""

import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import is_root, wait_until
from testbed.real.link_load import GUEST, session_from
from testbed.real.link_load import STATEMENT as SEND
from testbed.real.namespaces import slow_cable
from testbed.real.predicted_limit import FEW_CLIENTS, SHARES, ClientLoad, most, watched_with_limits

COMPUTE = "DO BENCHMARK(300000, 1 + 1)"
HALF, MBIT = 0.5, 10
STEP = 3.0  # seconds at each share of the peak
NEAR = 0.35
"""How far off the prediction may be on a machine whose processors others use too; what is served
without the change is twice as low."""
SLACK = 0.25
DEADLINE = 30.0

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not is_root(), reason="only root limits a processor or a link"),
]


def test_twice_the_link_gives_the_predicted_capacity(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Of 20 Mbit/s, predicted at less than half of the load that fills 10."""
    server = private_server("mysql", options=("--bind-address=0.0.0.0",))
    run_as_root(server, f"CREATE USER guest IDENTIFIED BY '{GUEST}'")
    with link(server, MBIT) as (load, interface):
        limits = {"interfaces": {interface: {"bandwidth": f"{MBIT}Mbit"}}}
        before, answer = predicted(tmp_path, server, load, "network=2x", limits)
    with link(server, 2 * MBIT) as (load, _):
        assert_given(before, answer, most(load))


@pytest.mark.long
def test_a_whole_processor_gives_the_capacity_predicted_at_half(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """By quotas; it needs an otherwise idle machine."""
    server = private_server("mysql")
    load: ClientLoad = lambda count, pace: Clients(server, COMPUTE, count, pace=pace)  # noqa: E731
    with cpu_quota(server.pid, HALF):
        before, answer = predicted(tmp_path, server, load, f"cores={2 * HALF:g}", {})
    with cpu_quota(server.pid, 2 * HALF):
        assert_given(before, answer, most(load))


@pytest.mark.long
def test_two_servers_serve_the_predicted_load(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Each with half a processor: one is watched alone, then both share clients."""
    servers = [private_server("mysql"), private_server("mysql")]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(cpu_quota(server.pid, HALF))
        before, answer = predicted(tmp_path, servers[0], shared(servers[:1]), "servers=2", {})
        assert_given(before, answer, most(lambda count, pace: shared(servers)(2 * count, pace)))


def shared(servers: Sequence[PrivateServer]) -> ClientLoad:
    """Clients that compute, divided over the servers."""

    def clients(count: int, pace: float) -> Clients:
        turn = cycle(servers)
        return Clients(servers[0], COMPUTE, count, pace=pace, session=lambda _: root(next(turn)))

    return clients


@contextmanager
def link(server: PrivateServer, mbit: int) -> Iterator[tuple[ClientLoad, str]]:
    """Clients behind a slow cable, and the interface that it is on this host."""
    with slow_cable(f"{mbit}mbit") as there:
        ask = partial(Clients, server, SEND, session=partial(session_from, there))
        yield (lambda count, pace: ask(count, pace=pace)), there.interface


def predicted(
    folder: Path, server: PrivateServer, load: ClientLoad, question: str, limits: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """What is served at most, and the agent's answer from less than half of that."""
    before = most(load)
    with watched_with_limits(folder, server, **limits) as agent:
        for share in SHARES:
            with load(FEW_CLIENTS, 1 / (share * before)):
                time.sleep(STEP)
        answer = wait_until("prediction", lambda: asked(agent.port, question), DEADLINE)
    assert answer is not None
    return before, answer


def asked(port: int, question: str) -> dict[str, Any] | None:
    """The agent's answer; None until the capacity is known."""
    url = f"http://127.0.0.1:{port}/api/v1/what-if?target=db&{question}"
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        found: dict[str, Any] = json.load(answer)
    return found if found["then"]["capacity"] else None


def assert_given(before: float, answer: dict[str, Any], truth: float) -> None:
    """Twice the limit was understood, and what it gives lies where it was predicted."""
    found = answer["then"]["capacity"]
    print(f"{before:.0f}/s before; {found} predicted, {truth:.0f}/s is the truth")
    assert answer["changes"][0]["factor"] == pytest.approx(2.0, rel=0.01)
    assert answer["then"]["gain"]["lower"] > 0
    assert found["value"] == pytest.approx(truth, rel=NEAR)
    assert (1 - SLACK) * found["lower"] < truth < (1 + SLACK) * (found["upper"] or truth)
