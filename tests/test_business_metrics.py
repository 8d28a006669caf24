"""A target's business metrics: their values in the window's intervals, and what a failure costs."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import bcrypt
import numpy as np
import pytest
from law_windows import WAVES, intervals
from prometheus_server import fill, serving

from agent.assessment.snapshot import Health
from agent.business_metrics.reader import BusinessMetricsReader
from agent.business_metrics.value_series import MAX_VALUES, ValueSeries
from agent.config.settings import Config, Target
from agent.demo.private_server import free_port
from agent.service.target_monitor import TargetMonitor
from agent.window.concurrency import ConcurrencySource
from agent.window.intervals import Window
from collectors.base import FailureKind
from models.business_metric_headroom import UnitReason
from models.trust import Trust

USERS = {"name": "active_users", "unit": "users", "query": "SELECT 1"}


def watched(*metrics: dict[str, Any]) -> TargetMonitor:
    """A monitor of a server that nobody asks, with intervals whose load went up and down."""
    target = {"name": "db", "user": "u", "business_metrics": list(metrics)}
    config = Config.validated({"targets": [target], "fit": {"interval": 10}})
    monitor = TargetMonitor(config, config.targets[0])
    monitor.buffer.restore(Window(intervals(WAVES)))
    monitor.session.server_health = Health(up=True)
    return monitor


def test_values_belong_to_the_interval_in_which_they_were_read() -> None:
    """Several are averaged; an interval without one is left out; none is interpolated."""
    series, window = ValueSeries(), Window(intervals([1.0, 2.0, 4.0, 8.0]))
    for at, value in ((9.0, 5.0), (10.0, 7.0), (10.1, 3.0), (39.0, 1.0), (41.0, 99.0)):
        series.append(at, value)
    joined = series.interval_averages(window, ConcurrencySource.STATEMENT_TIME)
    assert joined.unit.tolist() == [6.0, 3.0, 1.0]
    assert joined.concurrency.tolist() == [1.0, 2.0, 8.0]
    assert joined.throughput.tolist() == window["throughput"][[0, 1, 3]].tolist()
    assert len(ValueSeries().interval_averages(window, None).unit) == 0


def test_the_number_of_values_is_bounded() -> None:
    """The oldest are dropped, however long the agent runs."""
    series = ValueSeries()
    for at in range(MAX_VALUES + 10):
        series.append(float(at), 1.0)
    assert len(series._pairs) == MAX_VALUES


def test_a_metric_that_follows_the_load_has_a_headroom() -> None:
    """From values and intervals to the snapshot, once for each interval."""
    monitor, rows = watched(USERS), intervals(WAVES)
    for row in rows:
        monitor.business.series["active_users"].append(row.end - 1, 2 * row.throughput)
    now = rows[-1].end + 1
    monitor.assessment_tick(now)
    [before] = monitor.snapshot.current_business(monitor.snapshot.at)
    assert before.unit_headroom.reason is UnitReason.NO_CAPACITY
    monitor.business_tick(now)
    monitor.assessment_tick(now)
    [known] = monitor.snapshot.current_business(monitor.snapshot.at)
    capacity, load = monitor.snapshot.assessed.capacity, monitor.snapshot.load
    assert capacity is not None
    assert capacity.value is not None
    assert load is not None
    assert known.value == pytest.approx(2 * rows[-1].throughput)
    assert known.unit_headroom.amount is not None
    left = 2 * (capacity.value - load.throughput)
    assert known.unit_headroom.amount.value == pytest.approx(left, rel=0.02)
    assert known.unit_headroom.trust is capacity.trust is Trust.TRUSTED
    [stale] = monitor.snapshot.current_business(monitor.snapshot.at + 200)
    assert (stale.value, stale.unit_headroom.reason) == (None, UnitReason.NO_VALUE)
    down = replace(monitor.snapshot, health=Health(up=False))
    [present] = down.current_business(down.at)
    assert (present.value, present.unit_headroom.reason) == (known.value, UnitReason.NO_CAPACITY)


def test_a_failed_headroom_affects_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is counted as its own part, once for each interval; the capacity stays."""
    monitor, rows = watched(USERS), intervals(WAVES)
    now = rows[-1].end + 1
    monitor.assessment_tick(now)
    monkeypatch.setattr("agent.service.target_monitor.headroom_in_unit", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        monitor.business_tick(now)
    monitor.business_tick(now)
    monitor.assessment_tick(now)
    assert monitor.assessment_failures == {"business_metrics": 1}
    assert monitor.snapshot.assessed.capacity is not None


def test_a_reload_keeps_the_values_of_unchanged_metrics() -> None:
    """Another query under the same name is another metric."""
    one, other = watched(USERS).business, watched(USERS).business
    changed = watched({**USERS, "query": "SELECT 2"}).business
    one.series["active_users"].append(1.0, 5.0)
    other.take_over(one)
    changed.take_over(one)
    assert other.series["active_users"].latest == (1.0, 5.0)
    assert changed.series["active_users"].latest is None


def test_an_unreachable_server_is_retried_later() -> None:
    """A refused connection is counted, and the next try is seconds away, not at once."""
    target = {"name": "db", "user": "u", "port": 1, "business_metrics": [USERS]}
    reader = BusinessMetricsReader(Target.validated(target))
    now = time.monotonic()
    assert reader.tick(now) > now + 3
    [health] = reader.health
    assert health.failures == {FailureKind.REFUSED: 1}


@contextmanager
def answering(*bodies: object) -> Iterator[str]:
    """The URL of a server that gives these answers, one after the other."""
    left = list(bodies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps(left.pop(0)).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def asked(url: str, query: str) -> BusinessMetricsReader:
    """A reader that has asked there once."""
    metric = {"name": "orders", "unit": "o", "prometheus": {"url": url, "query": query}}
    target = {"name": "db", "user": "u", "business_metrics": [metric]}
    reader = BusinessMetricsReader(Target.validated(target))
    now = time.monotonic()
    due = reader.tick(now)
    assert now < due <= now + 60
    assert due % 60 == pytest.approx(0)  # of all that read each minute at once
    return reader


@pytest.mark.live
def test_a_real_prometheus_is_queried_for_the_value(
    prometheus: str, promtool: str, tmp_path: Path
) -> None:
    """The value of an expression; what it refuses is a reason."""
    data = fill(tmp_path, promtool, [("orders_total", {"job": "shop"}, time.time() - 60, 41.0)])
    with serving(prometheus, data) as url:
        latest = asked(url, "1 + sum(orders_total)").series["orders"].latest
        [broken] = asked(url, "sum(").health
        [unevaluated] = asked(url, "label_replace(orders_total, 'a', '$1', 'b', '(')").health
        [ranged] = asked(url, "orders_total[5m]").health
        [text] = asked(url, "'orders'").health
    assert latest is not None
    assert latest[1] == 42.0
    assert "parse error" in broken.last_error
    assert broken.last_error.endswith("; check the query")
    assert "; check the query, or the server's limits" in unevaluated.last_error
    assert ranged.last_error.endswith("a matrix instead of a number; check the query")
    assert text.last_error.endswith("a string instead of a number; check the query")


@pytest.mark.live
def test_a_prometheus_that_refuses_is_reported_with_the_keys_of_the_configuration(
    prometheus: str, promtool: str, tmp_path: Path
) -> None:
    """No options of commands, which the configuration does not have."""
    data = fill(tmp_path, promtool, [("orders_total", {}, time.time() - 60, 41.0)])
    web = {"basic_auth_users": {"headroom": bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()}}
    with serving(prometheus, data, web) as url:
        [refused] = asked(url, "orders_total").health
    [silent] = asked(f"http://127.0.0.1:{free_port()}", "orders_total").health
    assert refused.last_error.endswith("(401); give user with password_file, or token_file")
    assert silent.last_error.endswith("; check the URL, or give a longer timeout")


def answer(kind: str, result: object, **more: object) -> object:
    """A success as Prometheus writes it."""
    return {"status": "success", "data": {"resultType": kind, "result": result}, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer("vector", [{"metric": {}, "value": [1.0, "12.5"]}]), 12.5),
        (answer("scalar", [1.0, "3"]), 3.0),
        (answer("vector", []), "0 series instead of one number; check the query"),
        (
            answer("vector", 2 * [{"metric": {}, "value": [1.0, "1"]}]),
            "2 series instead of one number; add them up",
        ),
        (answer("scalar", [1.0, "NaN"]), "the query returned nan instead of one number"),
        (answer("scalar", [1.0, "-1"]), "the query's value is below 0: -1"),
        (
            answer("vector", [{"metric": {}, "values": []}]),
            "this is not a Prometheus response: no instant value; check the URL",
        ),
        (
            answer("vector", [{"metric": {}, "histogram": [1.0, {"count": "3", "sum": "9"}]}]),
            "the query returned a histogram instead of a number; check the query",
        ),
        ({"status": "error"}, "this is not a Prometheus response: no answer"),
        (
            answer("scalar", [1.0, "3"], warnings=["store 10.0.0.9: refused"]),
            "an answer may not be complete: store 10.0.0.9: refused",
        ),
        (answer("scalar", [1.0, "3"], isPartial=True), "not all of its storage answered"),
        (answer("scalar", [1.0, "3"], warnings=["PromQL info: it might be no counter"]), 3.0),
    ],
)
def test_a_prometheus_query_must_give_one_number(given: object, expected: float | str) -> None:
    """Anything but one finite number from 0 up is a failed reading, in one line."""
    with answering(given) as url:
        reader = asked(url, "orders")
    [health], latest = reader.health, reader.series["orders"].latest
    if isinstance(expected, str):
        assert expected in health.last_error
        assert latest is None
    else:
        assert latest is not None
        assert np.isclose(latest[1], expected)
