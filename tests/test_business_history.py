"""Values of business metrics outlive the agent: written, read back, and replayed."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from history_rows import SETTINGS
from law_windows import WAVES, intervals
from test_replay_history import SERVER, ZERO, history

from agent.assessment.snapshot import AssessmentState
from agent.business_metrics.reader import BusinessMetricsReader
from agent.business_metrics.value_series import MAX_VALUES, ValueSeries
from agent.cli import main
from agent.config.settings import Config
from agent.history.business_values import ReadValue
from agent.history.history_recorder import HistoryRecorder
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows, select_rows
from agent.history.row_kinds import BUSINESS, Row
from agent.history.store import Store
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval

WIDTH = 10.0
USERS = {"name": "active_users", "unit": "users", "query": "SELECT 1"}
EACH = 2.5  # users for each query/s
THEN, LATER = ClockPair(1000.0, ZERO), ClockPair(50.0, ZERO + 300.0)
"""Two lives of an agent; the second has another monotonic clock."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A history that is written."""
    found = Store(tmp_path / "state" / "history.db", SETTINGS)
    yield found
    found.close()


def reader(*names: str) -> BusinessMetricsReader:
    """The metrics of a target that nobody asks."""
    metrics = [{**USERS, "name": name} for name in names]
    config = Config.validated(
        {"targets": [{"name": "db", "user": "u", "business_metrics": metrics}]}
    )
    return BusinessMetricsReader(config.targets[0])


def recorder(store: Store, server: str, now: ClockPair) -> HistoryRecorder:
    """A target's way into the history, once that server has said who it is."""
    found, buffer = HistoryRecorder(store, "db"), IntervalBuffer(WIDTH, 3600.0, 1.0)
    buffer.switch_server(server)
    found.follow_server(buffer, now)
    return found


def test_a_restarted_agent_has_its_earlier_values(store: Store) -> None:
    """At their times, before its own, by name; not those of another server or metric."""
    first = recorder(store, SERVER, THEN)
    for k in range(5):
        first.keep_value(ReadValue("active_users", 900.0 + 10 * k, 100.0 + k))
        first.keep_value(ReadValue("gone", 900.0 + 10 * k, 1.0))
    first.record(IntervalBuffer(WIDTH, 3600.0, 1.0), AssessmentState(), THEN, last=True)
    store.tick(1.0)
    again, elsewhere = recorder(store, SERVER, LATER), recorder(store, "another", LATER)
    assert again.take_business() is None
    store.tick(2.0)
    watched = reader("active_users", "orders")
    watched.series["active_users"].append(49.0, 7.0)
    watched.restore(again.take_business() or {}, LATER)
    pairs = list(watched.series["active_users"]._pairs)
    shift = (LATER.monotonic - LATER.unix) - (THEN.monotonic - THEN.unix)
    expected = [(900.0 + 10 * k + shift, 100.0 + k) for k in range(5)] + [(49.0, 7.0)]
    assert [value for pair in pairs for value in pair] == pytest.approx(
        [value for pair in expected for value in pair], abs=0.001
    )
    assert watched.series["orders"].latest is None
    assert elsewhere.take_business() == {}
    assert again.take_business() is None


def test_only_as_many_values_are_read_back_as_are_kept() -> None:
    """The latest that were written, before all that were read since."""
    series = ValueSeries()
    for at in (7000.0, 7001.0):
        series.append(at, 0.0)
    series.restore((float(at), 1.0) for at in range(7005))
    ats = [at for at, _ in series._pairs]
    assert len(ats) == MAX_VALUES
    assert ats == [float(at) for at in range(7002 - MAX_VALUES, 7000)] + [7000.0, 7001.0]


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[Interval]]:
    """A history of a server whose users follow its load, and the configuration's file."""
    rows = [row._replace(end=row.end + ZERO) for row in intervals(WAVES)]
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, rows))
    values = [
        Row(("db", SERVER), round(1000 * (row.end - 1)), ({"active_users": EACH * row.throughput},))
        for row in rows
    ]
    with closing(open_to_write(path)) as connection:
        assert insert_rows(connection, BUSINESS, values) == len(rows)
    (tmp_path / "password").write_text("p")
    target = {"name": "db", "user": "u", "password_file": str(tmp_path / "password")}
    file = {"targets": [{**target, "business_metrics": [USERS]}], "fit": {"interval": WIDTH}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(file))
    return path, rows


def test_a_replay_reports_what_the_agent_would_have_reported(
    recorded: tuple[Path, list[Interval]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At each step the value then, and from enough values the headroom in users."""
    path, rows = recorded
    words = ["replay", str(path), "--config.file", str(tmp_path / "config.yaml")]
    assert main([*words, "--every", "2m", "--format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) > 4
    for line in lines:
        [known] = line["business_metrics"]
        latest = [row for row in rows if row.end - 1 <= line["at"]][-1]
        assert known["value"] == pytest.approx(EACH * latest.throughput)
    assert lines[0]["business_metrics"][0]["headroom"] is None
    assert lines[0]["business_metrics"][0]["reasons"]
    last = lines[-1]
    left = EACH * (last["capacity"]["value"] - last["load"]["throughput"])
    assert last["business_metrics"][0]["headroom"]["value"] == pytest.approx(left, rel=0.05)
    assert main(words) == 0
    assert " users" in capsys.readouterr().out.splitlines()[-1]
    assert main(["replay", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["business_metrics"] == []


@pytest.mark.parametrize("style", ["csv", "openmetrics"])
def test_business_values_are_exported_and_imported(
    recorded: tuple[Path, list[Interval]], tmp_path: Path, style: str
) -> None:
    """To the last digit."""
    path, rows = recorded
    text, other = tmp_path / "values", tmp_path / "other" / "history.db"
    out = ["--kind", "business", "--format", style, "-o", str(text)]
    assert main(["history", "export", "--file", str(path), *out]) == 0
    assert main(["history", "import", "--file", str(other), str(text)]) == 0
    found = []
    for each in (path, other):
        with closing(open_to_write(each)) as connection:
            found.append(list(select_rows(connection, BUSINESS)))
    assert found[0] == found[1]
    assert len(found[0]) == len(rows)
