"""Answers of a real server that arrive late: the rates stay those of its clients."""

import time
from pathlib import Path

import numpy as np
from proxy import Proxy

from agent.demo.server import PrivateServer
from collectors.transport_security import Endpoint
from testbed.real.clients import Clients
from testbed.real.daemon import target, wait_until, watching

THROUGHPUT = "throughput_queries_per_second"
LATE = 0.4
"""Seconds that the answers of every other interval are under way."""
TURNS = 16
EVERY = {name: {"interval": "1s"} for name in ("status", "statements")}


def test_answers_that_come_late_change_no_rate(server: PrivateServer, tmp_path: Path) -> None:
    """Counted from answer to answer intervals of 2 s would have a fifth more, and a fifth less.

    Within a tenth: beside other tests the client itself has its moments.
    """
    with Proxy(server.port) as proxy:
        aim = target(tmp_path, server, over=Endpoint(port=proxy.port))
        fit = {"interval": "2s", "window": "5m"}
        with watching(tmp_path, aim, fit=fit, collectors=EVERY) as agent:
            with Clients(server, "DO 0", pace=1 / 200) as client:
                wait_until("the rate", lambda: max(agent.seen(THROUGHPUT), default=0) > 190)
                since, before = time.monotonic(), client.done
                for turn in range(TURNS):
                    proxy.delay = LATE * (turn // 2 % 2)
                    time.sleep(1.0)
                rate = (client.done - before) / (time.monotonic() - since)
            seen = agent.seen(THROUGHPUT, since=since + 4.0)
    assert len(set(seen)) >= 3
    assert np.abs(np.array(seen) / rate - 1).max() < 0.1
