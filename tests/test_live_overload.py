"""A real server below, at and past its peak: every surface reports the same."""

import html
import json
import re
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import one_in_every_run
from contended_work import NO_HOST, PEAK, ContendedLoad
from test_live_alert import prometheus_on

from agent.demo.private_server import PrivateServer
from testbed.real.daemon import Daemon, PlausiblePage, target, wait_until, watching

FIT = {"interval": "1s", "window": "5m"}
LADDER = (1, 3, 2, 5, 7, 4, 10, 6, 12, 8, 14, 9, 18, 11)  # clients, for three seconds each
STEP = 3.0
HALF, BEST, PAST = 5, 10, 40
STEADY = 10.0  # seconds for which what is served is counted: a busy machine serves less
SETTLES = 60.0
SHOWN = ("value", "headroom", "overload_loss")


class Surfaces:
    """The agent's metrics, JSON and page at one moment."""

    def __init__(self, agent: Daemon) -> None:
        self.metrics = agent.page
        self.json = _capacity(agent)
        self.page = html.unescape(re.sub(r"<[^>]+>", " ", _get(agent, "/")))
        self._json_after_page = _capacity(agent)

    @property
    def agree(self) -> bool:
        """All three are of the same interval."""
        ratio = self.metrics.get("capacity_headroom_ratio")
        return ratio is not None and ratio == self.json["headroom"] and self._is_page_of_json

    @property
    def _is_page_of_json(self) -> bool:
        return all(self.json[name] == self._json_after_page[name] for name in SHOWN)

    @property
    def overloaded(self) -> bool:
        """The state by its metric."""
        return self.metrics.get("overloaded") == 1


def _capacity(agent: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_get(agent, "/api/v1/snapshot"))["targets"][0]["capacity"]
    return found


def _get(agent: Daemon, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def surfaces(agent: Daemon, ratio: tuple[float, float], *, overloaded: bool) -> Surfaces:
    """The first that agree on this state and on headroom between these, within whole intervals.

    On a busy machine clients stand still for seconds, and intervals show less load than they make.
    """
    found: list[Surfaces] = []

    def settled() -> bool:
        now = Surfaces(agent)
        found.append(now)
        return (
            now.agree
            and now.overloaded is overloaded
            and ratio[0] < now.json["headroom"] < ratio[1]
        )

    time.sleep(1.5 * STEP)
    try:
        wait_until(f"overloaded {overloaded}, headroom {ratio}", settled, SETTLES)
    except AssertionError:
        print(found[-1].json, agent.page.text)
        raise
    return found[-1]


@pytest.mark.parametrize(
    "server",
    [*one_in_every_run("mysql"), pytest.param("mariadb-11.8", marks=pytest.mark.long)],
    indirect=True,
)
def test_every_output_agrees_on_the_side_of_the_peak(
    server: PrivateServer, prometheus: str, tmp_path: Path
) -> None:
    """Headroom is positive at half of the best concurrency, about 0 at it and never beyond it."""
    there = target(tmp_path, server) | NO_HOST
    with (
        watching(tmp_path, there, sane=PlausiblePage(threads=PAST + 5), fit=FIT) as agent,
        prometheus_on(agent, tmp_path, prometheus) as watcher,
        ContendedLoad(server, PAST) as load,
    ):
        for count in LADDER:
            load.set(count)
            time.sleep(STEP)
        load.set(HALF)
        half = surfaces(agent, (0.08, 0.25), overloaded=False)
        wait_until("no alert", lambda: watcher.state == "inactive", SETTLES)
        load.set(BEST)
        best = surfaces(agent, (-0.08, 0.08), overloaded=False)
        served = load.throughput(STEADY)
        load.set(PAST)
        past = surfaces(agent, (-3.6, -2.4), overloaded=True)
        began = time.monotonic()
        served_past = load.throughput(STEADY)
        lost = agent.seen("overload_loss_ratio", since=began)
        wait_until("firing", lambda: watcher.state == "firing", SETTLES)
    for seen in (half, best):
        assert (seen.json["overloaded"], seen.json["overload_loss"]) == (False, 0)
        assert seen.metrics.get("overload_loss_ratio") == 0
        assert "past its peak" not in seen.page
    assert past.json["overloaded"] is True
    assert past.json["headroom"] == pytest.approx(1 - PAST / PEAK, rel=0.15)
    print(f"served at the best concurrency {served:.1f}/s, past it {served_past:.1f}: {past.json}")
    assert past.json["value"] == pytest.approx(served, rel=0.05)
    assert median(lost) == pytest.approx(1 - served_past / served, abs=0.05)
    assert past.metrics.get("overload_loss_ratio") == past.json["overload_loss"]
    shown = round(100 * past.json["overload_loss"])
    assert f"past its peak: more load lowers the throughput; {shown} % of it" in past.page
    assert "overloaded" in past.page
