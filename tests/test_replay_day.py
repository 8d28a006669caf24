"""A recorded day of a real server: what `replay` says of it at its hours, beside the truth.

`bench/record_day.py` recorded it, a second for each minute of the day. The truth is what closed
loops of as many connections got just before and just after, and what was served in the evening
while more was asked for.
"""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import pytest

from agent.cli import main
from testbed.recorded.day import HOUR, MIDNIGHT, day_of, day_share
from testbed.recorded.record_collector_readings import FIXTURES

FILE = FIXTURES / "day" / "mysql-shop.csv.gz"
MEASURED = json.loads(FILE.with_name("mysql-shop.json").read_text())
OVERLOADED = (19.0, 20.0)
"""More is asked for than can be done, at a constant rate."""
FROM_NOON = range(12, 23)
Json = dict[str, Any]


class Day(NamedTuple):
    """What is known of the day, times by its clock in hours."""

    said: Mapping[int, Json]
    """At each hour."""
    most: tuple[float, float]
    """What could be done at least and at most, by each of three measurements, queries/s."""

    def alerts(self, name: str) -> list[tuple[float, float]]:
        """From when to when this alert fired."""
        found = {
            alert["firing_at"]: alert["resolved_at"]
            for line in self.said.values()
            for alert in line["alerts"]
            if alert["alert"] == name and alert["firing_at"] is not None
        }
        return [((a - MIDNIGHT) / HOUR, (b - MIDNIGHT) / HOUR) for a, b in sorted(found.items())]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """The day, replayed from a history into which it was imported."""
    folder = tmp_path_factory.mktemp("day")
    history, text = str(folder / "history.db"), folder / "day.csv"
    text.write_text(day_of(FILE), encoding="utf-8")
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["history", "import", "--file", history, str(text)]) == 0
    assert "546 added" in output.getvalue()
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["replay", history, "--every", "1h", "--format", "json"]) == 0
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    said = {round((line["at"] - MIDNIGHT) / HOUR): line for line in lines[:-1]}
    served = [point["throughput"] for point in lines[-1]["points"]]
    clients = str(MEASURED["connections"])
    closed = [MEASURED[when][clients] for when in ("before", "after")]
    evening = _served(lines[-1], *OVERLOADED)
    assert len(served) > 400
    return Day(said, (min(*closed, evening), max(*closed, evening)))


def _served(line: Json, first: float, last: float) -> float:
    """The mean throughput (queries/s) between these hours."""
    found = [
        point["throughput"]
        for point in line["points"]
        if first <= (point["at"] - MIDNIGHT) / HOUR <= last
    ]
    assert len(found) > 20
    return float(sum(found) / len(found))


def test_the_load_is_that_of_the_hour(day: Day) -> None:
    """The offered load, as long as it was below the capacity."""
    most = MEASURED["before"][str(MEASURED["connections"])]
    for hour in (5, 7, 9, 10, 12, 16, 21, 22):
        load = day.said[hour]["load"]["throughput"]
        assert load == pytest.approx(most * day_share(hour), rel=0.1)


def test_the_capacity_is_what_was_measured(day: Day) -> None:
    """Every interval holds it; from noon on, three quarters seen, it is near.

    It is trusted then, until the clients on the same host were seen to fill its processors.
    """
    low, high = day.most
    assert high < 1.15 * low
    for hour in range(5, 23):
        capacity = day.said[hour]["capacity"]
        assert capacity["lower"] < high, hour
        assert capacity["upper"] > low, hour
    for hour in FROM_NOON:
        capacity = day.said[hour]["capacity"]
        assert capacity["value"] == pytest.approx((low + high) / 2, rel=0.12), hour
        reasons = [reason["reason"] for reason in capacity["reasons"]]
        assert reasons == ([] if hour == 12 else ["others_interfere"]), hour
        assert capacity["trust"] == ("trusted" if hour == 12 else "indicative"), hour
        assert capacity["limit"] == "server_cpu", hour


def test_little_is_trusted_at_night(day: Day) -> None:
    """Until nine o'clock at most half of the capacity was observed."""
    for hour in range(5, 10):
        assert day.said[hour]["capacity"]["trust"] != "trusted"


def test_an_alert_precedes_the_evenings_saturation(day: Day) -> None:
    """One page fires before the demand exceeds the capacity, and resolves once that is over."""
    low, _ = day.most
    asked = MEASURED["before"][str(MEASURED["connections"])]
    met = next(h / 10 for h in range(170, 200) if asked * day_share(h / 10) >= low)
    [(start, end)] = day.alerts("MysqlHeadroomSaturated")
    assert met - 1.5 < start < met - 1 / 6
    assert 20.5 < end < 22
    full, _ = day.alerts("MysqlHeadroomFull")[-1]
    assert start < full < OVERLOADED[0]
    overloaded = [h for h in day.said if day.said[h]["capacity"]["overloaded"]]
    assert overloaded == [19, 20]
