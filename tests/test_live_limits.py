"""A CPU quota is the limit of a server that has one, also when it is changed.

The server may use part of a processor only, as a container does, which no other work on this
machine takes from it.
"""

import math
from pathlib import Path

import pytest
from conftest import ServerFactory, one_in_every_run

from agent.demo.private_server import Flavour
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients
from testbed.real.daemon import Daemon, is_root, wait_until
from testbed.real.predicted_limit import approached, watched_with_limits

STATEMENT = "DO BENCHMARK(300000, 1 + 1)"
PROCESSORS = 0.3
NEAR = 0.6
"""How far off the prediction may be; that of all the host's processors is six times as high."""
SLACK = 0.3
"""By how much the truth itself changes where processors are shared with others: one closed loop
had 134, 123 and 105 queries/s within a minute."""


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root limits what a process may use")
@pytest.mark.parametrize("flavour", one_in_every_run("mysql"), indirect=True)
def test_a_cpu_quota_is_the_limit(
    flavour: Flavour, private_server: ServerFactory, tmp_path: Path
) -> None:
    """By its name, and within the predicted interval."""
    server = private_server(flavour)
    with cpu_quota(server.pid, PROCESSORS):
        resource_limit = approached(
            lambda count, pace: Clients(server, STATEMENT, count, pace=pace),
            watched_with_limits(tmp_path, server),
        )
    resource_limit.assert_met("server_cpu", near=NEAR, slack=SLACK)


LOW, HIGH = 0.2, 0.6  # of a processor
FULL = 1.15  # a quota holds to within its period, and both are read at about the same time
FAR = 1.8  # what three times the quota makes of the throughput at least


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root limits what a process may use")
@pytest.mark.parametrize("flavour", one_in_every_run("mysql"), indirect=True)
def test_a_changed_quota_is_never_used_by_more_than_all(
    flavour: Flavour, private_server: ServerFactory, tmp_path: Path
) -> None:
    """Busy clients use all of it before and after, and the capacity follows."""
    server = private_server(flavour)
    with (
        cpu_quota(server.pid, LOW) as change,
        watched_with_limits(tmp_path, server) as agent,
        Clients(server, STATEMENT, 4),
    ):
        low = wait_until("full", lambda: full_at(agent), 40)
        change(HIGH)
        high = wait_until("full again", lambda: full_at(agent, at_least=FAR * low), 40)
        change(LOW)
        wait_until("full as before", lambda: full_at(agent, at_most=high / FAR), 40)
    used = agent.seen("resource_utilisation_ratio", resource="server_cpu")
    assert max(used) < FULL


def full_at(agent: Daemon, at_least: float = 0.0, at_most: float = math.inf) -> float:
    """The throughput if it is within these, all of the quota is used, and it is the capacity."""
    page = agent.page
    found = page.get("throughput_queries_per_second") or 0.0
    share = page.get("resource_utilisation_ratio", resource="server_cpu") or 0.0
    capacity = page.get("capacity_queries_per_second") or 0.0
    if 0.8 < share < FULL and capacity < FAR * found and at_least < found < at_most:
        return found
    return 0.0
