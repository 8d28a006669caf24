"""The server's limit on connections is a limit: predicted from half of it, then met."""

import time
from contextlib import ExitStack
from pathlib import Path

import pymysql
import pytest
from conftest import ServerFactory, one_in_every_run

from agent.demo.private_server import Flavour, PrivateServer
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import wait_until
from testbed.real.predicted_limit import STEP, watched_with_limits

MOST = 41
EACH = 20.0  # statements/s of each client
COUNTS = (4, 12, 8, 19, 6, 16, 10, 20)
LIMIT = "resource_limit_queries_per_second"
REFUSED = 1040  # Too many connections
NEAR = 0.3
"""On a machine full of other work clients ask less often than they would."""


@pytest.mark.live
@pytest.mark.parametrize("flavour", one_in_every_run("mariadb"), indirect=True)
def test_as_many_clients_as_connections_are_the_limit(
    flavour: Flavour, private_server: ServerFactory, tmp_path: Path
) -> None:
    """Each client asks as often as any other, so that throughput follows their number."""
    server = private_server(flavour, options=[f"--max-connections={MOST}"])
    with watched_with_limits(tmp_path, server) as agent:
        for count in COUNTS:
            with Clients(server, "DO 1", count, pace=1 / (EACH * count)):
                time.sleep(STEP)
        wait_until("a limit", lambda: agent.get(LIMIT, resource="connections"), 10)
        page = agent.page
        run_as_root(server, f"SET GLOBAL max_connections = {3 * MOST}")
        with Clients(server, "DO 1", COUNTS[-1], pace=1 / (EACH * COUNTS[-1])):
            wait_until(
                "more connections are a higher limit",
                lambda: (agent.get(LIMIT, resource="connections") or 0) > 2 * EACH * MOST,
            )
        run_as_root(server, f"SET GLOBAL max_connections = {MOST}")
    truth = EACH * sessions_at_once(server)
    resource_limit = page.get(LIMIT, resource="connections")
    low, high = (
        page.get(f"resource_limit_{bound}_queries_per_second", resource="connections")
        for bound in ("lower", "upper")
    )
    print(f"{flavour}: {resource_limit} [{low}, {high}] predicted, {truth} queries/s is the truth")
    assert resource_limit == pytest.approx(truth, rel=NEAR)
    assert low is not None
    assert high is not None
    assert (1 - NEAR) * low < truth < (1 + NEAR) * high


def sessions_at_once(server: PrivateServer) -> int:
    """How many sessions the server allows before it refuses one."""
    with ExitStack() as sessions:
        for held in range(2 * MOST):
            try:
                sessions.enter_context(server.connect_as_root())
            except pymysql.OperationalError as error:
                if error.args[0] == REFUSED:
                    return held
                raise
    pytest.fail("no session was refused")
