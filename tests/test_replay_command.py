"""The command `replay`: it says what the daemon would have said, and takes damaged recordings."""

import csv
import gzip
import io
import json
import math
import random
import re
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from error_lines import one_line
from recordings import DEMAND, LAW, Row, as_rows, nearly, rows, written

from agent.assessment.forecaster import Forecaster
from agent.assessment.recent_load import RecentLoad
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.cli import main
from agent.config.settings import FitSettings
from agent.export.snapshot_json import snapshots_as_json
from agent.pipeline import assess
from agent.replay.alert_rules import RULES
from agent.replay.sample_csv_reader import SampleFile
from agent.support.clock_pair import ClockPair
from agent.what_if.target_sla import sla_of
from agent.window.interval_buffer import IntervalBuffer
from collectors.base import Sample
from testbed.data_file_paths import FOLDER
from testbed.recorded.record_collector_readings import FIXTURES
from testbed.recorded.record_collector_readings import recorded as recorded_samples

OPEN_HOT = FOLDER / "mysql97" / "open_hot.csv"
TICK = 1.0  # seconds between two looks of the daemon for a complete interval
PATH_DEPENDENT = ("outliers_total", "workload", "alerts")
"""What depends on how often the capacity was assessed before."""
Json = dict[str, Any]
Replayed = Callable[..., list[Json]]


@pytest.fixture
def replayed(capsys: pytest.CaptureFixture[str]) -> Replayed:
    """`replay … --format json`: what each line says; notes on standard error are passed over."""

    def command(*words: object) -> list[Json]:
        assert main(["replay", *map(str, words), "--format", "json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return command


@pytest.fixture
def hour(tmp_path: Path) -> Path:
    """An hour of samples 5 s apart."""
    return written(tmp_path / "hour.csv", rows(3600))


@pytest.fixture(scope="module")
def of_hour(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """What each line says of that hour; with the same options it is replayed once."""
    file = written(tmp_path_factory.mktemp("replayed") / "hour.csv", rows(3600))

    @cache
    def printed(*words: str) -> str:
        with redirect_stdout(io.StringIO()) as out:
            assert main(["replay", str(file), *words, "--format", "json"]) == 0
        return out.getvalue()

    return lambda *words: [json.loads(line) for line in printed(*words).splitlines()]


def as_the_daemon(samples: Iterable[Sample], settings: FitSettings, sampling: float) -> Snapshot:
    """What the daemon's own loop makes of samples: it looks once a second, and assesses."""
    buffer = IntervalBuffer(settings.interval, settings.window, sampling)
    fitted, now, snapshot = AssessmentState(), -math.inf, None
    ordered = sorted(samples, key=lambda sample: sample.at)
    recent, forecaster = RecentLoad(ordered[0].at), Forecaster("db", ordered[0].at)
    for sample in ordered:
        now = max(now, math.floor(sample.at / TICK) * TICK)
        while now <= sample.at:
            window = buffer.window(now)
            snapshot = assess("db", window, Health(up=True), fitted, settings, ClockPair(now, now))
            recent.observe(window, ClockPair(now, now))
            forecaster.observe(window, ClockPair(now, now))
            outlook = recent.outlook(ClockPair(now, now))
            forecast = forecaster.forecast(snapshot.capacity(now), ClockPair(now, now))
            snapshot = replace(snapshot, outlook=outlook, forecast=forecast)
            fitted, now = snapshot.assessed, now + TICK
        buffer.append(sample)
    assert snapshot is not None
    return snapshot


def test_a_recorded_server_gives_what_the_daemon_says_of_it(
    tmp_path: Path, replayed: Replayed
) -> None:
    """MySQL 9.7 under a rising load: every number of the last snapshot is the same."""
    _, samples = recorded_samples(FIXTURES / "mysql-9.7.4.jsonl.gz")
    samples = [sample for sample in samples if sample.collector != "digests"]
    settings = FitSettings(interval=5.0, stale_after=60.0)
    daemon = as_the_daemon(samples, settings, sampling=1.0)
    daemon = replace(daemon, sla=sla_of(daemon, 0.05, daemon.at))
    expected = json.loads(snapshots_as_json([daemon], daemon.at))["targets"][0]
    assert expected["sla"]["throughput"] or expected["sla"]["reasons"]
    file = written(tmp_path / "db.csv", as_rows(samples))
    options = ["--interval", "5s", "--stale-after", "1m", "--sampling", "1s"]
    options += ["--sla-seconds", "50ms"]
    [found] = replayed(file, "--at", daemon.at, *options)
    assert found.pop("at") == daemon.at
    assert all(alert["firing_at"] is None for alert in found.pop("alerts"))
    assert expected["capacity"]["lower"] > 0
    assert len(expected["points"]) > 10
    assert {"cpu", "connections"} <= set(expected["load"]["utilisation"])
    del expected["load"]["utilisation"]["cpu:steal"]  # one counter holds all of the host's CPU time
    del found["load"]["utilisation"]["server_cpu"]  # not recorded: it may use all
    del expected["load"]["cpu_clock"], found["load"]["cpu_clock"]
    for name in PATH_DEPENDENT[:2]:
        del expected[name], found[name]
    assert nearly(expected) == nearly(found)


@pytest.mark.skipif(not OPEN_HOT.exists(), reason=f"{OPEN_HOT} is not there")
def test_ten_recorded_minutes_of_mysql_foretell_the_peak_that_was_measured(
    tmp_path: Path, replayed: Replayed
) -> None:
    """Never above 58 % of it: within a fifth, in the interval; nothing is trusted or fired."""
    file = written(tmp_path / "open_hot.csv", of_open_hot())
    lines = replayed(file, "--every", "2m")
    times = [120, 240, 360, 480, 600, 601.75]
    assert [line["at"] for line in lines] == pytest.approx(times, abs=1)
    for line in lines[1:]:
        capacity = line["capacity"]
        assert capacity["value"] == pytest.approx(17_200, rel=0.2)
        assert capacity["lower"] < 17_200 < capacity["upper"]
        assert capacity["trust"] != "trusted"
        assert line["alerts"] == []
    loads = [line["load"]["throughput"] for line in lines]
    assert loads == pytest.approx([8558, 1506, 6318, 5707, 1445, 2567], rel=0.01)


def of_open_hot() -> Iterable[Row]:
    """The rates of that recording as counters; the observer is one running thread."""
    questions = spent = used = busy = 0.0
    first: Row = {"t_s": 0, "threads_running": 1, "uptime_s": 1000, "cpus": 2}
    yield first | dict.fromkeys(COUNTERS, 0.0)
    with OPEN_HOT.open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            seconds = float(line["dt"])
            questions += float(line["qps"]) * seconds
            spent += float(line["N_little_infl"]) * seconds
            used += float(line["mysqld_cpu"]) * seconds
            busy += float(line["host_util"]) * 2 * seconds
            yield {
                "t_s": float(line["t"]),
                "threads_running": int(line["threads_running"]) + 1,
                "uptime_s": 1000 + int(float(line["t"])),
                "cpus": 2,
                **dict(zip(COUNTERS, (questions, spent, used, busy), strict=True)),
            }


COUNTERS = ("questions", "statement_time_s", "server_cpu_s", "host_cpu_busy_s")


def test_the_same_recording_gives_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both formats; also packed, and on standard input."""
    plain = written(tmp_path / "db.csv", rows(1200))
    packed = plain.with_name("db.csv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    options = ("--every", "10m", "--target", "db")
    for format_ in ("table", "json"):
        said = []
        for file in (plain, packed, "-"):
            piped = io.TextIOWrapper(io.BytesIO(plain.read_bytes()))
            monkeypatch.setattr("sys.stdin", piped)
            assert main(["replay", str(file), "--format", format_, *options]) == 0
            said.append(capsys.readouterr().out.replace("db.csv.gz", "db.csv"))
        assert said[0]
        assert len({text.replace("<stdin>", str(plain)) for text in said}) == 1


def test_a_line_has_the_shape_of_a_target_in_the_snapshot(of_hour: Replayed) -> None:
    """The same keys, and the time and the alerts; steps are whole hours, the last is the end."""
    lines = of_hour("--every", "20m")
    empty = Snapshot("db", 0.0, 60.0, Health(), None, AssessmentState())
    keys = list(json.loads(snapshots_as_json([empty], 0.0))["targets"][0])
    assert all(list(line) == ["at", *keys, "alerts"] for line in lines)
    assert [line["at"] for line in lines] == [1200, 2400, 3600, pytest.approx(3607.75)]
    assert {line["target"] for line in lines} == {"hour"}
    assert lines[-1]["capacity"]["value"] == pytest.approx(LAW.x_max, rel=0.3)


def test_the_state_at_a_time_is_that_of_its_step(
    hour: Path, replayed: Replayed, of_hour: Replayed
) -> None:
    """`--at` says what a step at that time says, however often was assessed before."""
    of_steps = {line["at"]: line for line in of_hour("--every", "20m")}
    for at in (1200, 2400):
        [alone] = replayed(hour, "--at", at, "--assess-every", "1h")
        for name in PATH_DEPENDENT:
            del alone[name], of_steps[at][name]
        assert alone == of_steps[at]


def test_a_date_is_utc_where_times_are_unix_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--at` takes it with its zone, and the table shows it."""
    file = written(tmp_path / "db.csv", rows(1800, start=1_790_000_000.0))
    assert main(["replay", str(file), "--at", "2026-09-21T14:30:00Z"]) == 0
    assert "\n2026-09-21T14:30:00Z " in capsys.readouterr().out


def test_a_low_concurrency_is_not_shown_as_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A query of 0.1 ms, 200 times a second: 0.02 statements at once, as on the page."""
    names = ("t_s", "questions", "threads_running", "uptime_s", "statement_time_s")
    samples = ((t, 200 * t, 1, t + 9000, 0.02 * t) for t in range(0, 60, 5))
    file = written(tmp_path / "db.csv", (dict(zip(names, one, strict=True)) for one in samples))
    assert main(["replay", str(file)]) == 0
    assert re.search(r"\n\d+ s +200 +0\.02 ", capsys.readouterr().out)


def full(seconds: int, busy_from: int) -> Iterable[Row]:
    """A processor that is filled after a while, and was seen at every load before."""
    questions = spent = used = 0.0
    generator = random.Random(1)
    for t in range(0, seconds + 1, 5):
        share = 0.97 if t >= busy_from else 0.1 + 0.75 * abs(math.sin(t / 900.0))
        x = 4000.0 * share * generator.gauss(1, 0.01)
        n = 2 * share / (1 - min(share, 0.93) ** 2)
        questions, spent, used = questions + 5 * x, spent + 5 * n, used + 5 * x / 2000.0
        names = ("t_s", "questions", "threads_running", "uptime_s", *COUNTERS[1:], "cpus")
        values = (t, round(questions), round(n) + 1, t + 9000, spent, used, used, 2)
        yield dict(zip(names, values, strict=True))


def test_a_processor_that_fills_up_raises_the_shipped_alerts(
    tmp_path: Path, replayed: Replayed, capsys: pytest.CaptureFixture[str]
) -> None:
    """They fire when they should, and the table names them between its rows."""
    file = written(tmp_path / "db.csv", full(7_200, busy_from=5_400))
    fired: Json = {}
    for line in replayed(file, "--assess-every", "2m"):
        for alert in line["alerts"]:
            if alert["firing_at"] is not None:
                fired.setdefault(alert["alert"], alert)
    saturated = fired["MysqlHeadroomSaturated"]
    assert 5_400 <= saturated["pending_at"] <= 5_400 + 600
    assert saturated["firing_at"] == saturated["pending_at"]
    assert saturated["severity"] == "critical"
    assert fired["MysqlHeadroomSaturationPredicted"]["severity"] == "warning"
    assert main(["replay", str(file), "--assess-every", "2m"]) == 0
    table = capsys.readouterr().out
    assert f"{saturated['firing_at']:,.0f} s" in table
    assert "* MysqlHeadroomSaturated fires (critical)" in table
    assert re.search(r"^MysqlHeadroomSaturated would have fired ", table, re.MULTILINE)


def test_rows_out_of_order_and_twice_change_nothing(
    tmp_path: Path, replayed: Replayed, of_hour: Replayed
) -> None:
    """As long as they are not far from their place."""
    table = list(rows(3600))
    mixed = [*table, *table[100:200]]
    random.Random(3).shuffle(mixed)
    other = written(tmp_path / "mixed.csv", mixed)
    assert replayed(other, "--target", "db") == of_hour("--target", "db")


def test_the_case_of_column_names_changes_nothing(
    hour: Path, tmp_path: Path, replayed: Replayed, of_hour: Replayed
) -> None:
    """`Questions`, as the server itself has it, is the column too."""
    names, rest = hour.read_text().split("\n", 1)
    other = tmp_path / "named.csv"
    other.write_text(f"{names.title()}\n{rest}")
    assert replayed(other, "--target", "db") == of_hour("--target", "db")


def test_cells_that_are_not_known_are_as_rows_that_are_not_there(
    tmp_path: Path, replayed: Replayed
) -> None:
    """NaN or empty: the others of the row count, and there is no sample of what lacks one."""
    table = list(rows(3600))
    gone = range(100, 140)
    holes = [row | {"questions": "nan"} if k in gone else row for k, row in enumerate(table)]
    silent = [row for k, row in enumerate(table) if k not in gone]
    blind = [row | {"statement_time_s": ""} if k > 400 else row for k, row in enumerate(table)]
    files = [
        written(tmp_path / f"{name}.csv", made)
        for name, made in (("holes", holes), ("silent", silent), ("blind", blind))
    ]
    of_holes, of_silence, of_blind = (replayed(f, "--at", "40m", "--target", "db") for f in files)
    assert of_holes[0]["capacity"] == of_silence[0]["capacity"]
    assert of_blind[0]["load"]["concurrency"].keys() == {"threads_running"}
    assert of_holes[0]["load"]["concurrency"].keys() == {"threads_running", "statement_time"}


def test_the_processors_may_be_read_less_often_than_the_server(
    tmp_path: Path, replayed: Replayed
) -> None:
    """Once a minute, where the rest is every 5 s: intervals hold two readings of each."""
    unread: Row = {"host_cpu_busy_s": "", "server_cpu_s": ""}
    table = [row | (unread if float(row["t_s"]) % 60 else {}) for row in rows(3600)]
    [line] = replayed(written(tmp_path / "db.csv", table), "--at", "1h")
    assert len(line["points"]) == pytest.approx(3600 / 120, abs=1)
    limits = {limit["resource"]: limit for limit in line["resource_limits"]}
    assert limits["cpu"]["service_demand"] == pytest.approx(DEMAND / 2, rel=0.02)
    assert line["capacity"]["limit"] == "cpu"


def test_there_is_no_rate_across_a_restart_and_nothing_is_said_in_a_gap(
    tmp_path: Path, replayed: Replayed
) -> None:
    """Counters begin again at 0 after an hour; the server is silent for another one."""
    late = [row | {"t_s": float(row["t_s"]) + 7200, "uptime_s": row["t_s"]} for row in rows(3600)]
    file = written(tmp_path / "db.csv", [*rows(3600), *late])
    lines = {line["at"]: line for line in replayed(file, "--every", "10m")}
    before, within, after = lines[3600], lines[6000], lines[10_800]
    assert (before["up"], within["up"], after["up"]) == (True, None, True)
    assert within["load"] is None
    assert within["capacity"] is None
    assert [alert for line in lines.values() for alert in line["alerts"]] == []
    greatest = max(point["throughput"] for point in after["points"])
    assert greatest < 1.05 * float(LAW.throughput(15.0))
    assert len(after["points"]) == pytest.approx(480, abs=4)


def test_a_year_of_silence_is_passed_in_a_moment(tmp_path: Path, replayed: Replayed) -> None:
    """A gap costs no more than its steps."""
    table = list(rows(600))
    far = [row | {"t_s": float(row["t_s"]) + 300 * 86_400} for row in rows(600)]
    lines = replayed(written(tmp_path / "db.csv", [*table, *far]), "--every", "30d")
    assert [line["load"] is None for line in lines] == [True] * 10 + [False]


def test_an_alert_ends_in_a_gap(tmp_path: Path, replayed: Replayed) -> None:
    """As in a Prometheus, which goes on evaluating it; not when the recording goes on."""
    begin, gap = 7_200, 10 * 3_600
    late = [
        row | {"t_s": begin + gap + float(row["t_s"]), "uptime_s": row["t_s"]} for row in rows(600)
    ]
    file = written(tmp_path / "db.csv", [*full(begin, busy_from=5_400), *late])
    ended = {
        alert["alert"]: alert["resolved_at"] - begin
        for line in replayed(file)
        for alert in line["alerts"]
        if alert["firing_at"] is not None and alert["resolved_at"] is not None
    }
    kept = {rule.alert: rule.keep_firing_seconds for rule in RULES if rule.alert in ended}
    assert {"MysqlHeadroomSaturated", "MysqlHeadroomFull"} <= set(kept)
    for name, seconds in kept.items():
        assert seconds <= ended[name] <= seconds + 900, name


HEADER = "t_s,questions,threads_running,uptime_s\n"
GOOD = "".join(f"{t},{9 * t},2,{t + 100}\n" for t in range(0, 600, 5))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1: the file is empty"),
        ("t_s,questions,uptime_s\n1,2,3\n", ":1: no column threads_running"),
        (HEADER, ": fewer than two rows"),
        (HEADER + "0,1,2,3\n", ": fewer than two rows"),
        ("Questions," + HEADER + GOOD, ":1: two columns are named questions"),
        (HEADER + GOOD + "600,x,1,700\n", ":122: questions is 'x'"),
        (HEADER + GOOD + "600,-5,1,700\n", ":122: questions is -5"),
        (HEADER + GOOD + "600,inf,1,700\n", ":122: questions is inf"),
        (HEADER + GOOD + ",5,1,700\n", ":122: t_s is missing"),
        (HEADER + GOOD + "600,5,1,700,9\n", ":122: 5 cells under 4 columns"),
        (HEADER + GOOD + "1790000000,5,1,700\n", ":122: t_s is 1.79e+09, more than a year after"),
        (HEADER.replace(",", ";"), ":1: its cells are separated by semicolons"),
        (HEADER.replace(",", " "), ":1: its cells are separated by spaces"),
    ],
)
def test_a_bad_recording_is_one_line_with_its_place(
    text: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line and remedy, and nothing else is printed."""
    file = tmp_path / "bad.csv"
    file.write_text(text)
    assert f"{file}{place}" in one_line(capsys, main(["replay", str(file)]))


def test_rows_far_from_their_place_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files one after the other in the wrong order are not silently cut."""
    monkeypatch.setattr("agent.replay.sample_csv_reader.BUFFERED_ROWS", 50)
    file = tmp_path / "bad.csv"
    file.write_text(HEADER + "".join(f"{t + 9000},{9 * t},2,{t}\n" for t in range(60)) + GOOD)
    text = one_line(capsys, main(["replay", str(file)]))
    assert f"{file}:62: t_s is 0, more than 50 rows after later ones; sort the rows by t_s" in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--at", "9h"), "--at 32,400 s is after the recording, which ends at 3,608 s"),
        (("--at", "-5"), "--at -5 s is before the recording, which begins at 0 s"),
        (("--at", "noon"), "--at: 'noon' is not a time in the recording; write seconds or a dur"),
        (("--interval", "5s"), "twice the time between two samples (5 s); give --interval 10s"),
        (("--interval", "1h"), "--interval: must be from 1s to 10m"),
        (("--config.file", "none.yaml"), "none.yaml"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    words: tuple[str, str], text: str, hour: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the option and what would be right."""
    assert main(["replay", str(hour), *words]) == 2
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_settings_of_a_configured_target_are_used(hour: Path, replayed: Replayed) -> None:
    """Its interval, and the ceilings of its resources."""
    config = hour.with_name("config.yaml")
    config.write_text(
        "fit: {interval: 30s}\n"
        "targets:\n"
        "  - {name: a, user: u}\n"
        "  - {name: b, user: u, resources: {ceilings: {cpu: 0.5}}}\n"
    )
    of_a, of_b = (
        replayed(hour, "--at", "1h", "--config.file", config, "--target", name)[0] for name in "ab"
    )
    assert of_a["target"] == "a"
    assert len(of_a["points"]) == pytest.approx(120, abs=1)
    used = [line["load"]["utilisation"]["cpu"] for line in (of_a, of_b)]
    assert used[1] == pytest.approx(2 * used[0])


def test_class_slas_are_not_replayed_and_that_is_said(
    hour: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No recording has the response times of classes: the key is null, and a note has the cause."""
    config = hour.with_name("config.yaml")
    sla = f"{{digest: {'0f' * 32}, seconds: 20ms}}"
    config.write_text(f"targets: [{{name: a, user: u, class_slas: [{sla}]}}]\n")
    words = ["replay", str(hour), "--at", "1h", "--format", "json"]
    assert main([*words, "--config.file", str(config)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["class_slas"] is None
    assert "class_slas are not replayed: a recording has no response times" in captured.err
    assert main(words) == 0
    assert "class_slas" not in capsys.readouterr().err


def test_with_an_sla_each_step_says_where_it_is_reached(of_hour: Replayed) -> None:
    """On the law it is where the law has it, seen from any load; without one `sla` is null."""
    assert {line["sla"] for line in of_hour("--every", "20m")} == {None}
    lines = of_hour("--every", "20m", "--sla-seconds", "3ms")
    n = np.linspace(1.0, LAW.n_max or 1.0, 5000)
    truth = float(np.interp(0.003, n / LAW.throughput(n), LAW.throughput(n)))
    for line in lines:
        sla = line["sla"]
        assert (sla["seconds"], sla["trust"]) == (0.003, line["capacity"]["trust"])
        assert sla["throughput"]["lower"] <= truth <= sla["throughput"]["upper"]
        left = 1 - line["load"]["throughput"] / sla["throughput"]["value"]
        assert sla["headroom"]["value"] == pytest.approx(left)


def test_the_table_has_the_sla_of_the_configured_target(
    hour: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `sla_seconds` has it, unless the option says otherwise; a sentence at the end."""
    config = hour.with_name("config.yaml")
    config.write_text("targets: [{name: a, user: u, sla_seconds: 20ms}]\n")
    words = ["replay", str(hour), "--every", "30m", "--config.file", str(config)]
    assert main(words) == 0
    header, first, *rest = capsys.readouterr().out.splitlines()[1:]
    place = header.index("SLA reached at")
    assert re.match(r"[\d,]+ \([\d,]+ to [\d,]+\) +\d+ %$", first[place:])
    assert re.search(r"trust +residence ", header)
    assert rest[-1].startswith("The SLA is a mean residence time of 20 ms; it is ")
    assert main([*words, "--sla-seconds", "1ms"]) == 0
    table = capsys.readouterr().out
    assert "mean residence time of 1 ms" in table
    assert "never_met" in table
    assert main(words[:-2]) == 0
    assert "SLA" not in capsys.readouterr().out


def test_a_recording_is_read_as_a_stream(tmp_path: Path) -> None:
    """Ten thousand rows take 4 MiB of memory, as twice as many do; if all were kept, 10."""
    file = written(tmp_path / "db.csv", rows(50_000))
    tracemalloc.start()
    count = sum(1 for _ in SampleFile(str(file)).readings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_001
    assert peak < 6 * 2**20


def test_a_recording_in_milliseconds_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no interval can be made, that is an error, and a line says what the reason may be."""
    file = written(
        tmp_path / "db.csv",
        [r | {"t_s": 1000 * float(r["t_s"])} for r in rows(40, step=1)],
    )
    assert main(["replay", str(file), "--sampling", "1s"]) == 2
    assert "if t_s and uptime_s are in seconds, as they must be" in capsys.readouterr().err


def test_a_recording_shorter_than_an_interval_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its length; one interval is enough."""
    file = written(tmp_path / "db.csv", rows(6, step=1))
    assert main(["replay", str(file)]) == 2
    told = "no complete interval: it lasts 6 s, and an interval is 15 s; give a longer one, or a"
    assert told in capsys.readouterr().err
    assert main(["replay", str(file), "--interval", "2s"]) == 0


def test_an_interval_that_is_complete_only_at_the_end_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps between the last sample and that time have none yet."""
    file = written(tmp_path / "db.csv", rows(50, step=10))
    assert main(["replay", str(file), "--every", "1s", "--format", "json"]) == 0
    first, *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["load"] is None
    assert last["load"]["throughput"] > 0


def test_an_export_of_a_history_is_no_recording_of_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is to be imported first."""
    file = tmp_path / "export.csv"
    file.write_text("target,server,time,seconds\n")
    assert main(["replay", str(file)]) == 2
    assert "load it by `mysql-headroom history import`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--since", "6h"), "--since is for a Prometheus, and"),
        (("--selector", "{job='db'}"), "--selector is for a Prometheus, and"),
        (("--no-hosts",), "--no-hosts is for a Prometheus, and"),
        (("--host-selector", "{job='node'}"), "--host-selector is for a Prometheus, and"),
        (("--user", "me"), "--user is for a Prometheus, and"),
        (("--server", "abc"), "--server is for the history of an agent; leave it out"),
    ],
)
def test_options_of_another_kind_of_source_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], told: str
) -> None:
    """They would change nothing."""
    file = written(tmp_path / "db.csv", rows(600, step=5))
    assert main(["replay", str(file), *words]) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert not shown.out


def test_samples_five_minutes_apart_keep_the_processors(tmp_path: Path, replayed: Replayed) -> None:
    """The interval holds two of them, and what seldom changes is known in each."""
    file = written(tmp_path / "db.csv", rows(6 * 3600, step=300, start=50.0))
    end = replayed(file, "--every", "1d")[-1]
    assert end["load"]["utilisation"]["cpu"] > 0
    assert {resource_limit["resource"] for resource_limit in end["resource_limits"]} == {"cpu"}
    assert len(end["points"]) == pytest.approx(36, abs=1)


def test_a_recording_of_weeks_is_forecast(tmp_path: Path, replayed: Replayed) -> None:
    """A load that grows by 45/s a day meets 2000/s, where its processors are full."""
    days = 16
    times = np.arange(0.0, days * 86_400.0 + 1, 300.0)
    loads = 900 * (1 + 0.05 * times / 86_400) * (0.8 - 0.2 * np.cos(2 * np.pi * times / 86_400))
    questions = np.cumsum(300 * loads)
    table = (
        {
            "t_s": at,
            "questions": round(asked),
            "threads_running": 3,
            "threads_connected": 5,
            "uptime_s": 50_000 + at,
            "statement_time_s": 0.001 * asked,
            "host_cpu_busy_s": asked / 1000,
            "cpus": 2,
        }
        for at, asked in zip(times.tolist(), questions.tolist(), strict=True)
    )
    file = written(tmp_path / "weeks.csv", table)
    options = ("--at", "16d", "--window", "2d", "--assess-every", "4d")
    [line] = replayed(file, *options)
    found = line["forecast"]["time_to_saturation"]["value"]
    expected = (2000 - 900) / 45 - days
    assert found / 86_400 == pytest.approx(expected, abs=3)
    assert line["forecast"]["days"] >= 14
    [short] = replayed(file, "--at", "1d", *options[2:])
    assert short["forecast"]["reasons"][0]["reason"] == "history_too_short"


@pytest.mark.parametrize(
    ("column", "change", "told"),
    [
        ("questions", lambda t, v: 3000 + round(1000 * math.sin(t)), "questions fell 10 times in "),
        ("host_cpu_busy_s", lambda t, v: 50 + 40 * math.sin(t), "host_cpu_busy_s fell 10 times in"),
        ("host_cpu_busy_s", lambda t, v: 100 * v, "in 60 s, more than cpus, 2; give CPU time in s"),
        ("server_cpu_s", lambda t, v: 1000 * v, "in 60 s, more than cpus, 2; give CPU time in sec"),
        ("statement_time_s", lambda t, v: 1e3 * v, "threads_running; give the time of stat"),
        ("statement_time_s", lambda t, v: 1e6 * v, "threads_running; give the time of stat"),
        ("cpus", lambda t, v: 0.5, "in 60 s, more than cpus, 0.5; give CPU time in seconds, and"),
        ("t_s", lambda t, v: 1.79e12 + 1000 * v, ":2: t_s is 1790000000000, a time after the year"),
    ],
)
def test_a_column_of_another_unit_is_refused(
    column: str,
    change: Callable[[float, float], float],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rates where counters belong, milliseconds, ticks and too few processors give no numbers."""
    table = [row | {column: change(float(row["t_s"]), float(row[column]))} for row in rows(3600)]
    file = written(tmp_path / "db.csv", table)
    assert told in one_line(capsys, main(["replay", str(file)]))


def test_a_status_that_is_flushed_now_and_then_is_a_counter(
    tmp_path: Path, replayed: Replayed
) -> None:
    """Every five minutes its counts begin again at 0, and the server's uptime does not."""
    table = [row | {"questions": int(row["questions"]) % 10**6} for row in rows(3600)]
    assert replayed(written(tmp_path / "db.csv", table))[-1]["capacity"]["limit"] == "cpu"


def test_samples_that_come_more_rarely_later_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No interval holds them, which is said with the option that uses them."""
    table = [row for row in rows(7200) if float(row["t_s"]) < 3600 or not float(row["t_s"]) % 60]
    file = written(tmp_path / "db.csv", table)
    assert main(["replay", str(file)]) == 0
    told = "59 samples, of 59 min, are 60 s apart and in no interval; --sampling 1m uses them"
    assert told in capsys.readouterr().err
    assert main(["replay", str(file), "--sampling", "1m"]) == 0
    assert capsys.readouterr().err == ""


def test_a_sampling_that_is_too_short_is_reported_with_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its columns are not to blame where no interval holds two samples."""
    file = written(tmp_path / "db.csv", rows(7200, 15))
    told = "479 samples, of 120 min, are 15 s apart and in no interval; --sampling 15s uses them"
    assert main(["replay", str(file), "--sampling", "1s"]) == 2
    assert told in capsys.readouterr().err


def test_cpu_time_without_the_processors_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the limit that a user expects to see; without it there is only a lower bound."""
    table = [{n: v for n, v in row.items() if n != "cpus"} for row in rows(600)]
    assert main(["replay", str(written(tmp_path / "db.csv", table))]) == 0
    told = "host_cpu_busy_s, server_cpu_s: not used, as no row has cpus"
    printed = capsys.readouterr()
    assert told in printed.err
    assert re.search(r" –  +[\d,]+ or more  +–", printed.out)
