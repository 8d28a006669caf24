"""A CPU quota is the limit of a server that has one.

The server may use part of a processor only, as a container does, which no other work on this
machine takes from it.
"""

from pathlib import Path

import pytest
from conftest import ServerFactory, one_in_every_run

from agent.demo.server import Flavour
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients
from testbed.real.daemon import is_root
from testbed.real.predicted_limit import approached, watched

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
def test_a_quota_is_the_limit_of_a_server_that_has_one(
    flavour: Flavour, private_server: ServerFactory, tmp_path: Path
) -> None:
    """By its name, and about within the interval that was said before."""
    server = private_server(flavour)
    with cpu_quota(server.pid, PROCESSORS):
        resource_limit = approached(
            lambda count, pace: Clients(server, STATEMENT, count, pace=pace),
            watched(tmp_path, server),
        )
    resource_limit.assert_met("server_cpu", near=NEAR, slack=SLACK)
