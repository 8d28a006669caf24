"""A slow link is the limit of a server that sends much.

The clients are on another host; what goes there passes one end of a cable that is made up, as all
of a container are, and that this host may fill at a low rate only.
"""

from functools import partial
from pathlib import Path

import pytest
from conftest import ServerFactory, one_in_every_run

from agent.demo.private_server import Flavour
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import is_root
from testbed.real.link_load import GUEST, STATEMENT, session_from
from testbed.real.namespaces import slow_cable
from testbed.real.predicted_limit import approached, watched_with_limits

RATE = "20Mbit"  # 250 of these answers a second, which takes little of a processor
NEAR, SLACK = 0.25, 0.15


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
@pytest.mark.parametrize("flavour", one_in_every_run("mariadb"), indirect=True)
def test_a_link_is_the_limit_of_a_server_that_fills_it(
    flavour: Flavour, private_server: ServerFactory, tmp_path: Path
) -> None:
    """By the way in which it is full first."""
    server = private_server(flavour, options=("--bind-address=0.0.0.0",))
    run_as_root(server, f"CREATE USER guest IDENTIFIED BY '{GUEST}'")
    with slow_cable(RATE.lower()) as there:
        session = partial(session_from, there)
        link = {there.interface: {"bandwidth": RATE}}
        resource_limit = approached(
            lambda count, pace: Clients(server, STATEMENT, count, pace=pace, session=session),
            watched_with_limits(tmp_path, server, interfaces=link),
        )
    resource_limit.assert_met(f"network:{there.interface}:sent", near=NEAR, slack=SLACK)
