"""The command `compare`: what changed from one period to another, and what did not."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recordings
from error_lines import one_line
from recordings import Row, rows, written
from test_replay_history import SERVER, ZERO, history, real_intervals

from agent.cli import main
from agent.compare.compare_periods import compare_periods
from agent.config.timestamps import time_text
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import CLASSES
from agent.history.row_kinds import Row as HistoryRow
from agent.window.intervals import Interval
from models.usl.law import Usl

HOURS, STEP = 10_800, 15
DEARER = 1.25
LATER_LAW = Usl(sigma=0.05, kappa=0.0005, lam=500.0)
Json = dict[str, Any]
Compared = Callable[..., Json]


@pytest.fixture
def compared(capsys: pytest.CaptureFixture[str]) -> Compared:
    """The document of `compare … --format json`, its quantities by name."""

    def command(*words: object) -> Json:
        assert main(["compare", *map(str, words), "--format", "json"]) == 0
        found: Json = json.loads(capsys.readouterr().out)
        return found | {"quantities": {one["name"]: one for one in found["quantities"]}}

    return command


@pytest.fixture(autouse=True)
def compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another format of what a test has compared already has its results from there."""
    known: dict[str, Any] = {}

    def once(opened: "partial[Any]", *rest: Any) -> Any:
        (args,) = opened.args
        key = repr(({**vars(args), "format": ""}, rest))
        if key not in known:
            known[key] = compare_periods(opened, *rest)
        return known[key]

    monkeypatch.setattr("agent.commands.compare.compare_periods", once)


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three hours of a server, then three whose queries take a quarter more and wait for more."""
    first = list(rows(HOURS, STEP))
    with monkeypatch.context() as changed:
        changed.setattr(recordings, "LAW", LATER_LAW)
        changed.setattr(recordings, "DEMAND", DEARER * recordings.DEMAND)
        later = list(rows(HOURS, STEP, start=HOURS + STEP))
    return written(tmp_path / "db.csv", [*first, *(_after(first[-1], row) for row in later)])


def _after(last: Row, row: Row) -> Row:
    """The same with counters that go on where they were."""
    counters = ("questions", "statement_time_s", "server_cpu_s", "host_cpu_busy_s")
    found = {name: float(row[name]) + float(last[name]) for name in counters}
    return row | found | {"uptime_s": float(row["uptime_s"]) + HOURS + STEP}


def test_only_the_known_change_is_found(deployed: Path, compared: Compared) -> None:
    """Demand and contention are higher, their true changes within the intervals; λ and κ stay."""
    found = compared(deployed, "--around", HOURS, "--length", "3h")["quantities"]
    demand, sigma = found["demand:cpu"], found["sigma"]
    assert (demand["verdict"], sigma["verdict"]) == ("higher", "higher")
    assert demand["ratio"]["lower"] < DEARER < demand["ratio"]["upper"]
    assert sigma["difference"]["lower"] < 0.03 < sigma["difference"]["upper"]
    assert sigma["before"]["value"] == pytest.approx(0.02, abs=0.004)
    assert found["kappa"]["verdict"] == found["lambda"]["verdict"] == "within_uncertainty"
    assert found["capacity"]["after"]["value"] < found["capacity"]["before"]["value"]
    for name, one in found.items():
        for side in (one["before"], one["after"]):
            assert side["lower"] < side["value"] < side["upper"], name


def test_a_rare_load_of_a_long_period_is_called_rare(tmp_path: Path, compared: Compared) -> None:
    """Of thousands of intervals those of rare loads are kept, and stand for no others."""
    [usual, *_] = real_intervals()
    count = 1500
    x = [1000.0 + k if k >= 10 else 2000.0 + 700 * k for k in np.arange(count) % 100]
    ends = ZERO + STEP * np.arange(1.0, count + 1)
    found = [
        usual._replace(end=end, seconds=float(STEP), throughput=each)
        for end, each in zip(ends.tolist(), x, strict=True)
    ]
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, found))
    first, last = f"{ZERO:.0f}..{ends[-101]:.0f}", f"{ends[-101]:.0f}..{ends[-1]:.0f}"
    side = compared(path, "--before", first, "--after", last)["before"]
    assert side["intervals"] == count - 100
    told = [side["throughput"][name] for name in ("lower", "median", "upper")]
    expected = [np.quantile(x, share) for share in (0.05, 0.5, 0.95)]
    assert told == pytest.approx(expected, rel=0.1)


def test_more_processors_make_no_query_cheaper(
    tmp_path: Path, compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its CPU time is compared with as many; a change within a period is told."""
    table = [row | {"cpus": 2 if float(row["t_s"]) < HOURS else 4} for row in rows(2 * HOURS, STEP)]
    table = [{n: v for n, v in row.items() if n != "server_cpu_s"} for row in table]
    words = (written(tmp_path / "db.csv", table), "--before", f"0..{HOURS - STEP}", "--after")
    demand = compared(*words, f"{HOURS}..{2 * HOURS}")["quantities"]["demand:cpu"]
    assert demand["verdict"] == "within_uncertainty"
    assert demand["before"]["value"] == pytest.approx(recordings.DEMAND / 4, rel=0.02)
    assert main(["compare", *map(str, words), f"{HOURS}..{2 * HOURS}"]) == 0
    told = "Processors of host CPU: 2 before, 4 after; per query, the time of all 4 together."
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Processors")] == [told]


@pytest.mark.parametrize("later", [0, STEP, 600])
def test_periods_around_a_resize_are_each_assessed_by_their_own_processors(
    tmp_path: Path, compared: Compared, capsys: pytest.CaptureFixture[str], later: int
) -> None:
    """Also if the marker is at the resize, or some minutes after it."""
    table = [row | {"cpus": 2 if float(row["t_s"]) < HOURS else 4} for row in rows(2 * HOURS, STEP)]
    table = [{n: v for n, v in row.items() if n != "server_cpu_s"} for row in table]
    words = (written(tmp_path / "db.csv", table), "--around", HOURS + later, "--length", "2h")
    before = compared(*words)["quantities"]["capacity"]["before"]
    assert before["upper"] < 1.5 * 2 / recordings.DEMAND  # of four: 16,000
    assert main(["compare", *map(str, words)]) == 0
    text = capsys.readouterr().out
    told = (
        "Processors of host CPU changed within before, 2, then 4: only the intervals with 2 count."
    )
    assert told in text.splitlines()
    assert "-0.0 %" not in text


def test_periods_around_a_change_of_max_connections_are_each_assessed_by_their_own(
    tmp_path: Path, compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    """The marker is set some seconds after the change; a query holds its connection as long."""
    table = [
        {name: row[name] for name in ("t_s", "questions", "threads_running", "uptime_s")}
        | {
            "threads_connected": 3 * (float(row["threads_running"]) - 1) + 1,
            "max_connections": 60 if float(row["t_s"]) < HOURS else 600,
        }
        for row in rows(2 * HOURS, STEP)
    ]
    words = (written(tmp_path / "db.csv", table), "--around", HOURS + 10, "--length", "2h")
    found = compared(*words)["quantities"]["demand:connections"]
    assert found["before"]["value"] == pytest.approx(found["after"]["value"], rel=0.02)
    assert found["verdict"] == "within_uncertainty"
    assert main(["compare", *map(str, words)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = "max_connections changed within before, 60, then 600: only the intervals with 60 count."
    assert told in lines
    assert (
        "max_connections: 60 before, 600 after; per query, the time of all 600 together." in lines
    )


def test_without_a_change_nothing_is_marked(
    deployed: Path, compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two periods before the change are alike, in JSON and in the table."""
    words = (deployed, "--before", "0..5000", "--after", "5400..10800")
    verdicts = {one["verdict"] for one in compared(*words)["quantities"].values()}
    assert verdicts == {"within_uncertainty"}
    assert main(["compare", *map(str, words)]) == 0
    assert capsys.readouterr().out.endswith("Nothing changed beyond the uncertainty.\n")


def test_unknown_quantities_are_not_reported_as_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a load that hardly varies, in either period."""
    columns = "t_s,questions,threads_running,uptime_s"
    lines = [f"{5 * k},{650 * k + k % 3},2,{5 * k + 10}" for k in range(2500)]
    file = tmp_path / "db.csv"
    file.write_text("\n".join([columns, *lines]) + "\n")
    assert main(["compare", str(file), "--before", "0..6000", "--after", "6000..12000"]) == 0
    text = capsys.readouterr().out
    assert text.endswith(": no quantity has a known uncertainty in both periods.\n")
    assert text.count("cannot tell") == 1  # the capacity, which has a lower bound
    laws = (
        "Not known in either period: contention σ; coherency κ; λ, throughput at N = 1, queries/s"
    )
    assert f"\n{laws} (before: " in text


@pytest.mark.parametrize("option", ["--window", "--stale-after"])
def test_an_option_that_would_change_nothing_is_refused(
    deployed: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """A period is fitted whole, and is never stale."""
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(deployed), "--around", str(HOURS), option, "1h"])
    assert f"unrecognized arguments: {option} 1h" in one_line(capsys, int(str(ended.value)))


def test_times_of_a_file_are_of_its_own_clock(deployed: Path, compared: Compared) -> None:
    """`90m..3h` is from that many minutes of the recording on, not before now."""
    in_seconds = compared(deployed, "--before", "0..5400", "--after", "5400..10800")
    assert compared(deployed, "--before", "0..90m", "--after", "90m..3h") == in_seconds


def test_periods_around_a_time_are_equal_and_within_the_file(
    deployed: Path, compared: Compared
) -> None:
    """By default they are as long as the recording has on both sides, not a day."""
    found = compared(deployed, "--around", HOURS / 2)
    sides = [(found[side]["start"], found[side]["end"]) for side in ("before", "after")]
    assert sides == [(0, HOURS / 2), (HOURS / 2, HOURS)]


def test_a_constant_load_is_not_compared(tmp_path: Path, compared: Compared) -> None:
    """It shows nothing of contention: cannot tell, and why."""
    table = [
        row | {"statement_time_s": 7.0 * k, "questions": 5000 * k}
        for k, row in enumerate(rows(HOURS, STEP))
    ]
    found = compared(written(tmp_path / "even.csv", table), "--around", HOURS / 2)["quantities"]
    for name in ("sigma", "kappa", "lambda"):
        assert found[name]["verdict"] == "cannot_tell"
        assert found[name]["why"].startswith("before: ")


def test_the_classes_of_a_history_are_compared_by_cost_per_call(
    tmp_path: Path, compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    """The class whose calls take twice as long is higher, and first; the other is not."""
    intervals = real_intervals()
    middle, end = intervals[len(intervals) // 2].end, intervals[-1].end
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, intervals))
    with closing(open_to_write(path)) as connection:
        found = [row for k, i in enumerate(intervals) for row in _class_rows(k, i, middle)]
        insert_rows(connection, CLASSES, found)
    words = (path, "--before", f"{ZERO - 10}..{middle}", "--after", f"{middle}..{end}")
    quantities = compared(*words)["quantities"]
    classes = [name for name in quantities if name.startswith("statement_time:")]
    assert classes == ["statement_time:bb|=shop", "statement_time:aa|=shop"]
    dearer, same = quantities["statement_time:aa|=shop"], quantities["statement_time:bb|=shop"]
    assert dearer["verdict"] == "higher"
    assert dearer["ratio"]["lower"] < 2.0 < dearer["ratio"]["upper"]
    assert same["verdict"] == "within_uncertainty"
    assert "cpu:aa|=shop" not in quantities
    assert main(["compare", *map(str, words)]) == 0
    assert "shop.aa, time of a call" in capsys.readouterr().out


def test_classes_of_a_few_minutes_have_a_cost_and_no_known_error(
    tmp_path: Path, compared: Compared
) -> None:
    """Their use is recorded once a minute, however often they are called."""
    intervals = real_intervals()
    middle, end = intervals[len(intervals) // 2].end, intervals[-1].end
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, intervals))
    few = [i for i in intervals if abs(i.end - middle) < 2.5 * intervals[0].seconds]
    with closing(open_to_write(path)) as connection:
        found = [row for k, i in enumerate(few) for row in _class_rows(k, i, middle)]
        insert_rows(connection, CLASSES, found)
    words = (path, "--before", f"{ZERO - 10}..{middle}", "--after", f"{middle}..{end}")
    known = compared(*words)["quantities"]["statement_time:aa|=shop"]
    assert known["before"]["value"] > 0 < known["after"]["value"]
    assert known["why"] == "before: its use was recorded too few times in the period"


def _class_rows(number: int, interval: Interval, middle: float) -> Iterator[HistoryRow]:
    """Two classes whose calls take 4 and 10 ms; from the middle on the first take twice as long."""
    calls, noise = 50.0 + 7 * (number % 5), 1 + 0.02 * (number * 7 % 5 - 2)
    dearer = 2.0 if interval.end > middle else 1.0
    for name, seconds in (("aa|=shop", 0.004 * dearer), ("bb|=shop", 0.01)):
        spent = {"calls": calls, "statement_time": calls * seconds * noise}
        cells = {"seconds": interval.seconds, **spent}
        row = tuple(cells.get(column.name) for column in CLASSES.columns)
        yield HistoryRow(("db", SERVER, name), round(1000 * interval.end), row)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--before", "0..5000"), "give --before FROM..TO and --after FROM..TO, or --around TIME"),
        (("--before", "5..a", "--after", "0..9"), "'a' is not a time in the recording"),
        (
            ("--before", "0-9", "--after", "0..900"),
            "'0-9' is not a valid period; write FROM..TO, such as 2026-",
        ),
        (("--before", "9..0", "--after", "0..900"), "--before: '9..0' ends before it begins"),
        (("--before", "0..900", "--after", "7..9"), "--after: '7..9' is 2 s long; a comparison"),
        (
            ("--before", "0..900", "--after", "800..1700"),
            "--after: begins at 800 s, before --before",
        ),
        (("--before", "900..1800", "--after", "0..900"), "; give the earlier period as --before"),
        (("--around", "600", "--after", "7..900"), "--around excludes --before and --after"),
        (("--around", "90000"), "the recording is from 0 s to 21,615 s; give a time 60 s or more"),
        (
            ("--before", "0..900", "--after", "90000..99000"),
            "two samples from 90,000 s to 99,000 s",
        ),
        (
            ("--before", "0..900", "--after", "1000..1070"),
            "1 interval from 1,000 s to 1,070 s; 6 are needed",
        ),
    ],
)
def test_an_invalid_period_is_one_line(
    deployed: Path, words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits with 2, and has the valid form."""
    assert text in one_line(capsys, main(["compare", str(deployed), *words]))


def test_a_period_without_intervals_in_a_history_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a history that begins later."""
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, real_intervals()))
    words = ("--before", f"{ZERO - 900}..{ZERO - 100}", "--after", f"{ZERO}..{ZERO + 900}")
    said = one_line(capsys, main(["compare", str(path), *words]))
    period = f"from {time_text(ZERO - 900)} to {time_text(ZERO - 100)}"
    assert f"no intervals of db {period}" in said


def test_what_of_a_recording_is_not_used_is_reported_once(
    deployed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by `replay`, and not once for each period."""
    deployed.write_text(deployed.read_text().replace("threads_running", "threads_running,note", 1))
    lines = deployed.read_text().splitlines()
    at = lines[0].split(",").index("note")
    cells = (line.split(",") for line in lines[1:])
    rest = (",".join([*row[:at], "x", *row[at:]]) for row in cells)
    deployed.write_text("\n".join([lines[0], *rest]))
    assert main(["compare", str(deployed), "--before", "0..3h", "--after", "3h..6h"]) == 0
    assert capsys.readouterr().err == f"mysql-headroom: {deployed}: ignored columns: note\n"


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_options_without_effect_are_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the periods, whatever the source."""
    for source in ("db.csv", "http://127.0.0.1:1"):
        words = ["compare", source, "--around", "600", option, "2h"]
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert f"unrecognized arguments: {option} 2h" in capsys.readouterr().err
