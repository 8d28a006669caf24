"""The agent within this process, as the daemon runs it, on one server."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.history.store import Store
from agent.service.daemon import Agent
from agent.window.intervals import Window


@contextmanager
def watched(
    server: PrivateServer, interval: float, store: Store | None = None, **more: Any
) -> Iterator[Agent]:
    """Run the agent on that server while the block lasts, with intervals of that length, s."""
    target = {"name": "bench", "socket": server.socket, "user": "root"}
    data = {"fit": {"interval": interval, "window": 3600.0}, "targets": [target], **more}
    agent = Agent(Config.validated(data), store)
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def window_of(agent: Agent) -> Window:
    """Return the window of the agent's only target."""
    (monitor,) = agent.monitors
    return monitor.buffer.window(time.monotonic())
