"""A limit of a real server: predicted from half of its load, then reached.

A closed loop finds what the server can do; an open loop stays below half of that while the agent
watches; the closed loop runs once more, for what others do on this machine changes meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.demo.private_server import PrivateServer
from agent.export.resource_labels import LABELS, resource_labels
from testbed.real.clients import Clients
from testbed.real.daemon import COLLECTORS, Daemon, Page, target, wait_until, watching

CLOSED_LOOP, CLIENTS = 5.0, 8
SHARES, FEW_CLIENTS = (0.1, 0.3, 0.2, 0.45, 0.15, 0.4, 0.25, 0.5), 3
NARROW = 1.8  # upper over lower bound
LIKELY = 0.4  # the least probability of the limit that was met
STEP = 4.0  # seconds at each share of the peak
FIT = {"interval": "2s", "window": "5m"}
OFTEN = {**COLLECTORS, "host": {"interval": "500ms"}}

ClientLoad = Callable[[int, float], Clients]
"""So many clients, who ask every so many seconds; without a pause where that is 0."""


@dataclass(frozen=True)
class PredictedLimit:
    """The agent's prediction from at most half of the peak, and the measured peak."""

    page: Page
    peak: float

    def assert_met(self, limit: str, *, near: float, slack: float) -> None:
        """Check its name and interval; a narrow one must be that close to the truth.

        Other work on the same machine, and on its disk, widens the interval.
        """
        names = ("", "lower_", "upper_")
        value, low, high = (self.page.get(f"capacity_{n}queries_per_second") for n in names)
        print(f"{limit}: {value} [{low}, {high}] predicted, {self.peak} queries/s is the truth")
        assert low is not None
        assert value is not None
        if high is not None and high < NARROW * low:
            assert value == pytest.approx(self.peak, rel=near)
        assert (1 - slack) * low < self.peak < (1 + slack) * (high or self.peak)
        labels = dict(zip(LABELS, resource_labels(limit), strict=True))
        assert (self.page.get("capacity_limit_probability", **labels) or 0) > LIKELY


def watched_with_limits(
    folder: Path, server: PrivateServer, **resources: object
) -> AbstractContextManager[Daemon]:
    """Run an agent that knows these limits, and reads the host as often as the server."""
    there = target(folder, server)
    return watching(folder, there, fit=FIT, collectors=OFTEN, resources=resources)


def approached(load: ClientLoad, watcher: AbstractContextManager[Daemon]) -> PredictedLimit:
    """Measure the peak, let the agent watch up to half of it, measure again."""
    peak = most(load)
    with watcher as agent:
        for share in SHARES:
            with load(FEW_CLIENTS, 1 / (share * peak)):
                time.sleep(STEP)
        wait_until("capacity", lambda: agent.get("capacity_queries_per_second"), 10)
        page = agent.page
    return PredictedLimit(page, (peak + most(load)) / 2)


def most(load: ClientLoad) -> float:
    """Measure the statements per second of clients without think time."""
    with load(CLIENTS, 0.0) as clients:
        time.sleep(1.0)
        done, begun = clients.done, time.monotonic()
        time.sleep(CLOSED_LOOP)
        return (clients.done - done) / (time.monotonic() - begun)
