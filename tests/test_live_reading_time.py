"""Answers of a real server that arrive late: the rates stay those of its clients."""

import time
from pathlib import Path

from proxy import Proxy

from agent.demo.private_server import PrivateServer
from collectors.endpoint import Endpoint
from testbed.real.clients import Clients
from testbed.real.daemon import target, wait_until, watching

THROUGHPUT = "throughput_queries_per_second"
LATE = 0.4
"""Seconds that the answers of every other interval are under way."""
TURNS = 16
WIDTH = 2.0  # seconds of an interval
EVERY = {name: {"interval": "1s"} for name in ("status", "statements")}


def test_answers_that_come_late_change_no_rate(server: PrivateServer, tmp_path: Path) -> None:
    """Counted from answer to answer intervals of 2 s would have a fifth more, and a fifth less.

    Within a tenth of what the client has done in any 2 s: beside other tests it has its moments.
    """
    with Proxy(server.port) as proxy:
        aim = target(tmp_path, server, over=Endpoint(port=proxy.port))
        fit = {"interval": f"{WIDTH:g}s", "window": "5m"}
        with watching(tmp_path, aim, fit=fit, collectors=EVERY) as agent:
            with Clients(server, "DO 0", pace=1 / 200) as client:
                wait_until("the rate", lambda: max(agent.seen(THROUGHPUT), default=0) > 190)
                since = time.monotonic()
                for turn in range(TURNS):
                    proxy.delay = LATE * (turn // 2 % 2)
                    time.sleep(1.0)
                slowest, fastest = client.rates(WIDTH, since - WIDTH)
            seen = agent.seen(THROUGHPUT, since=since + 2 * WIDTH)
    print(f"{slowest:.1f} to {fastest:.1f} statements/s, shown as {sorted(set(seen))}")
    assert len(set(seen)) >= 3
    assert 0.9 * slowest < min(seen) <= max(seen) < 1.1 * fastest
