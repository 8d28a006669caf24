"""The command `analyze`: a fleet from the series of a real Prometheus, as `replay` sees it too."""

import csv
import json
import re
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import bcrypt
import pytest
from error_lines import one_line
from prometheus_server import Sample, exported, fill, serving
from recordings import DEMAND, LAW, Row, nearly, rows, written
from web_clients import SERVER, Authority

from agent.cli import main
from agent.commands.analyze_report import HEADER
from agent.commands.exit_codes import INTERRUPTED
from agent.config.timestamps import time_text
from agent.demo.private_server import free_port
from agent.prometheus.client import Client, PrometheusError
from agent.prometheus.exporters import QUESTIONS, SERVICES, STATEMENT_TIME
from agent.prometheus.fleet_targets import FleetQuery, FleetTarget
from agent.prometheus.server_recordings import CHUNK_SAMPLES, measure_samplings
from agent.prometheus.target_assessment import Analysis, analyse
from agent.support.http_client import Access

START = 1_790_000_000
"""The Unix time at which the known history begins."""
LENGTH, STEP = 7200, 15
END = START + LENGTH
SPAN = ("--since", "2h", "--until", str(END))
MAX_POINTS = 11_000
"""Steps of a series that Prometheus answers with at once."""
Json = dict[str, Any]


def table() -> list[Row]:
    """Two hours of a server, a sample each 15 s."""
    return list(rows(LENGTH, step=STEP, start=START))


def troubled() -> list[Row]:
    """The same with an hour's silence, after which the counters begin again at 0."""
    first = list(rows(LENGTH // 4, step=STEP, start=START))
    late = rows(LENGTH // 4, step=STEP, start=END - LENGTH // 4)
    return [*first, *(row | {"uptime_s": k * STEP} for k, row in enumerate(late))]


def history() -> Iterator[Sample]:
    """Four servers: with a host, in two replicas, without a host, and one of another job."""
    mysql = {"job": "mysql"}
    host = {"job": "node", "instance": "db1:9100"}
    yield from exported(table(), {**mysql, "instance": "db1:9104"}, host)
    for replica, part in (("a", table()[::2]), ("b", table())):
        labels = {**mysql, "instance": "db2:9104", "replica": replica}
        yield from exported(part, labels, {**host, "instance": "db2:9100", "replica": replica})
    yield from exported(troubled(), {**mysql, "instance": "[::1]:9104"})
    yield from exported(table()[:200], {"job": "other", "instance": "db4:9104"})


def managed() -> Iterator[Sample]:
    """An instance of RDS for each exporter of it, and a server with a host beside them."""
    host = {"job": "node", "instance": "db1:9100"}
    yield from exported(table(), {"job": "mysql", "instance": "db1:9104"}, host)
    for exporter in SERVICES:
        yield from exported(table(), {"job": "rds", "instance": f"{exporter}.abc.rds.example:3306"})
        yield from utilisations(exporter)


def utilisations(exporter: str) -> Iterator[Sample]:
    """The CPU of an instance that has the exporter's name, in per cent of two, each minute."""
    service = SERVICES[exporter]
    labels = {service.identifier: exporter, "job": "rds"}
    if exporter == "rds_exporter":
        labels |= {"cpu": "All", "mode": "total"}
    for before, after in pairwise(table()[:: 60 // STEP]):
        used = float(after["host_cpu_busy_s"]) - float(before["host_cpu_busy_s"])
        yield service.metric, labels, float(after["t_s"]), 100 * used / 60 / 2


@pytest.fixture(scope="session")
def filled(promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database with the known history."""
    return fill(tmp_path_factory.mktemp("prometheus"), promtool, history())


@pytest.fixture(scope="session")
def url(prometheus: str, filled: Path) -> Iterator[str]:
    """The Prometheus with the known history."""
    with serving(prometheus, filled) as found:
        yield found


@pytest.fixture(scope="session")
def rds_url(
    prometheus: str, promtool: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A Prometheus that knows instances of RDS."""
    with serving(prometheus, fill(tmp_path_factory.mktemp("rds"), promtool, managed())) as found:
        yield found


def analysed(
    capsys: pytest.CaptureFixture[str], url: str, *words: str
) -> tuple[int, dict[str, Json]]:
    """The exit code, and the targets by name."""
    asked = ("--prometheus", url, "--selector", '{job="mysql"}', *SPAN, "--format", "json")
    code = main(["analyze", *asked, *words])
    shown = capsys.readouterr()
    assert [line for line in shown.err.splitlines() if "no host matches" not in line] == []
    return code, {target["target"]: target for target in json.loads(shown.out)["targets"]}


def replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path, recording: Sequence[Row]) -> Json:
    """What `replay` says of that recording at the end of the history."""
    file = written(tmp_path / "db.csv", recording)
    options = ("--sampling", str(STEP), "--interval", "30s", "--window", "2h")
    assert main(["replay", str(file), "--format", "json", *options]) == 0
    found: Json = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_a_fleet_is_what_a_replay_of_each_server_says(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same load, capacity, limits and law of a server with its host, also from replicas."""
    code, found = analysed(capsys, url)
    assert code == 0
    assert list(found) == ["[::1]:9104", "db1:9104", "db2:9104"]
    known = [{n: value for n, value in row.items() if n != "server_cpu_s"} for row in table()[1:]]
    expected = replayed(capsys, tmp_path, known)
    assert expected["capacity"]["value"] > 0
    assert expected["load"]["utilisation"]["cpu"] > 0
    for name in ("db1:9104", "db2:9104"):
        for part in ("load", "capacity", "resource_limits", "usl", "points", "concurrency_source"):
            assert nearly(found[name][part]) == nearly(expected[part]), (name, part)


def test_two_periods_are_compared_as_those_of_a_file_are(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`compare` finds the same in the series of a Prometheus as in the samples behind them."""
    known = [{n: value for n, value in row.items() if n != "server_cpu_s"} for row in table()]
    middle, end = START + LENGTH // 2, END + STEP
    periods = ("--before", f"{START}..{middle}", "--after", f"{middle}..{end}")
    of_file = (str(written(tmp_path / "db.csv", known)), "--interval", "30s")
    of_series = (url, "--target", "db1:9104", "--interval", "30s")
    found = []
    for source in (of_file, of_series):
        assert main(["compare", *source, *periods, "--format", "json"]) == 0
        known_now = json.loads(capsys.readouterr().out)
        assert known_now["after"]["intervals"] == pytest.approx(119, abs=2)
        found.append({quantity["name"]: quantity for quantity in known_now["quantities"]})
    assert list(found[0]) == list(found[1])
    for name, quantity in found[1].items():  # Prometheus leaves a range's first instant out
        assert quantity["verdict"] == "within_uncertainty"
        expected = found[0][name]["after"]["value"]
        assert quantity["after"]["value"] == pytest.approx(expected, rel=0.02), name
    assert found[1]["demand:cpu"]["before"]["value"] == pytest.approx(DEMAND / 2, rel=0.02)


def test_a_restart_and_an_hours_silence_give_no_rate(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a server without a host, whose counters begin again at 0: no interval spans the gap."""
    _, found = analysed(capsys, url)
    target = found["[::1]:9104"]
    assert target["load"]["utilisation"] == {}
    assert target["concurrency_source"] == "statement_time"
    assert max(point["throughput"] for point in target["points"]) < 1.05 * float(
        LAW.throughput(15.0)
    )
    silence = (START + LENGTH / 4 + 30, END - LENGTH / 4)
    assert not [p for p in target["points"] if silence[0] < p["at"] < silence[1]]
    assert len(target["points"]) == pytest.approx(2 * LENGTH / 4 / 30, abs=4)


def test_samples_from_before_scrapes_became_more_frequent_are_used(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the first hour one a minute, then one each 15 s: all are held by intervals of 2 min.

    Where narrower ones are requested, those of the last hour alone are.
    """
    middle = len(table()) // 2
    known = [*table()[: middle : 60 // STEP], *table()[middle:]]
    samples = exported(known, {"job": "mysql", "instance": "db1:9104"})
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        for words, width, lasts in (((), 120, LENGTH), (("--interval", "30s"), 30, LENGTH / 2)):
            _, found = analysed(capsys, url, *words)
            points = found["db1:9104"]["points"]
            assert len(points) == pytest.approx(lasts / width, abs=3), words


def test_samples_from_after_scrapes_became_less_frequent_are_used(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One each 15 s, and in the last quarter of an hour one a minute."""
    late = len(table()) - 900 // STEP
    known = [*table()[:late], *table()[late :: 60 // STEP]]
    samples = exported(known, {"job": "mysql", "instance": "db1:9104"})
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        _, found = analysed(capsys, url)
    points = found["db1:9104"]["points"]
    assert len(points) == pytest.approx(LENGTH / 120, abs=3)
    assert points[-1]["at"] > END - 300


def test_two_prometheus_that_write_into_one_series_are_as_one_that_scrapes_twice_as_often(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their labels are the same, and the second scrapes a second later: no sample is in a gap."""
    end = END + 1
    known = [row for row in rows(end - START, 1, START) if (float(row["t_s"]) - START) % STEP <= 1]
    samples = exported(known, {"job": "mysql", "instance": "db1:9104"}, {"instance": "db1:9100"})
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        for until in (end, end - 1):  # the last distance is the short one, or the long
            _, found = analysed(capsys, url, "--until", str(until))
            points = found["db1:9104"]["points"]
            assert len(points) == pytest.approx(LENGTH / STEP, abs=4)
            assert found["db1:9104"]["load"]["utilisation"]["cpu"] > 0


def test_an_hour_of_rare_scrapes_in_a_day_makes_no_interval_wider(
    prometheus: str, promtool: str, tmp_path: Path
) -> None:
    """Wider intervals would cost the other 23 hours more; of two hours, one is half of the time."""
    day = list(rows(86400, step=60, start=END - 86400))
    hour = len(day) // 2, len(day) // 2 + 60
    known = [*day[: hour[0]], *day[hour[0] : hour[1] : 5], *day[hour[1] :]]
    samples = exported(known, {"job": "mysql", "instance": "db1:9104"})
    end = float(day[hour[1] + 60]["t_s"])
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        for query, found in (
            (FleetQuery(END - 86400, END), [60.0]),
            (FleetQuery(end - 7200, end), [60.0, 300.0]),
        ):
            target = FleetTarget((("instance", "db1:9104"),))
            assert measure_samplings(Client(Access(url)), target, query) == found


def test_a_server_that_has_stopped_is_read_as_it_was_scraped(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two hours after its last sample as at it."""
    asked = ("--target", "db1:9104", "--since", "3h", "--until", str(END + 2 * 3600 - 600))
    assert main(["replay", url, *asked]) == 0
    title = capsys.readouterr().out.splitlines()[0]
    assert title.startswith("db1:9104: samples 15 s apart, intervals of 30s")


def test_a_time_that_is_not_used_changes_nothing(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """50 days ago the server was on another host, and scraped every five minutes."""
    before, samples = rows(86400, step=300, start=END - 50 * 86400), list[Sample]()
    for node, part in (("b", before), ("a", table())):
        host = {"instance": f"{node}:9100", "node": node}
        samples += exported(part, {"job": "mysql", "instance": "db1:9104", "node": node}, host)
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        words = ("--join", "node", "--since")
        (_, long), (_, short) = (analysed(capsys, url, *words, since) for since in ("60d", "30d"))
    assert len(short["db1:9104"]["points"]) == pytest.approx(LENGTH / 30, abs=3)
    assert "cpu" in short["db1:9104"]["load"]["utilisation"]
    for key in ("load", "capacity", "points"):
        assert long["db1:9104"][key] == short["db1:9104"][key], key


def test_where_an_answer_is_split_is_not_seen(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short parts, whose borders lie within intervals, give the same document."""
    whole = analysed(capsys, url)
    monkeypatch.setattr("agent.prometheus.server_recordings.CHUNK_SAMPLES", 7)
    monkeypatch.setattr("agent.replay.bulk_intervals.READINGS_AT_ONCE", 5)
    assert analysed(capsys, url) == whole


def test_a_server_that_allows_few_samples_is_asked_in_parts(
    url: str,
    filled: Path,
    prometheus: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As many as of one series in two hours: the same document as from a server without a limit."""
    shutil.copytree(filled, tmp_path / "data", ignore=shutil.ignore_patterns("lock", "wal"))
    few = ("--query.max-samples=500",)
    with serving(prometheus, tmp_path / "data", options=few) as limited:
        with pytest.raises(PrometheusError, match="too many samples"):
            Client(Access(limited)).instant_values('count_over_time({__name__=~".+"}[100y])')
        assert analysed(capsys, limited) == analysed(capsys, url)


def test_the_server_gives_no_more_points_than_are_asked_for_at_once(url: str) -> None:
    """Prometheus refuses one step more than its limit, of which `analyze` asks for half at once."""
    client = Client(Access(url))
    found = client.range(QUESTIONS, END - MAX_POINTS, END, 1.0)
    assert max(len(series.at) for series in found) > 7000
    with pytest.raises(PrometheusError, match="exceeded maximum resolution"):
        client.range(QUESTIONS, END - MAX_POINTS - 1, END, 1.0)
    assert CHUNK_SAMPLES < MAX_POINTS


def test_the_table_and_the_csv_have_the_most_endangered_first(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left decides, a server of which nothing is known comes last."""
    asked = ("--prometheus", url, *SPAN)
    assert main(["analyze", *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split("  +", lines[0].strip()) == list(HEADER)
    assert lines[-1].startswith("db4:9104 ")
    assert lines[-1].endswith("  the latest assessment is 70 min old and withheld")
    assert main(["analyze", *asked, "--format", "csv"]) == 0
    table = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["target"] for row in table] == [line.split()[0] for line in lines[1:]]
    left = [float(row["headroom_at_peak"]) for row in table if row["headroom_at_peak"]]
    assert left == sorted(left)
    assert {"db1:9104", "db2:9104"} <= {r["target"] for r in table if float(r["capacity"] or 0) > 0}


def test_what_is_analysed_is_printed_before_the_next(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON, whose document is the same: of a long run that is interrupted that is there."""
    asked = ("analyze", "--prometheus", url, *SPAN, "--no-hosts", "--format", "json")
    assert main([*asked]) == 0
    whole = capsys.readouterr().out
    names = [target["target"] for target in json.loads(whole)["targets"]]
    assert names == sorted(names)
    assert len(names) > 1

    def interrupted(client: Client, target: FleetTarget, *rest: Any) -> Analysis:
        if target.name == names[1]:
            raise KeyboardInterrupt
        return analyse(client, target, *rest)

    monkeypatch.setattr("agent.commands.analyze.analyse", interrupted)
    assert main([*asked]) == INTERRUPTED
    printed = capsys.readouterr().out
    assert whole.startswith(printed)
    assert [target["target"] for target in json.loads(printed + "]}")["targets"]] == names[:1]


def test_a_fleet_is_drawn(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each server has a row, by name; a file that cannot be one is refused before any question."""
    plot = tmp_path / "fleet.svg"
    assert main(["analyze", "--prometheus", url, *SPAN, "--plot", str(plot)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    drawn = plot.read_text()
    places = [drawn.index(f"<!-- {row[0]}") for row in rows]
    assert places == sorted(places)
    assert drawn.count("the capacity is not known") == sum(row[2] == "–" for row in rows) == 2
    for name, problem in (("a.gif", "end its name in .png or .svg"), ("none/a.png", "no such dir")):
        assert main(["analyze", "--prometheus", "-", "--plot", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err


def test_hosts_are_left_out_or_joined_by_a_label_as_asked(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--no-hosts` reads none, `--join` compares that label, `--host-selector` chooses."""
    for words, known in (
        (("--no-hosts",), set()),
        (("--join", "replica"), {"db2:9104"}),
        (("--host-selector", '{instance="db1:9100"}'), {"db1:9104"}),
    ):
        _, found = analysed(capsys, url, *words)
        with_cpu = {name for name, t in found.items() if "cpu" in t["load"]["utilisation"]}
        assert with_cpu == known, words


def test_servers_without_a_host_are_named_with_the_remedy(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of many a few; those of which several hosts have the name, each with them."""
    samples = [
        *exported(table(), {"instance": "db0:9104"}, {"instance": "db0:9100"}),
        *exported(table(), {"instance": "db1:9104"}, {"instance": "db1:9100"}),
        *(
            one
            for one in exported(table(), {"mode": ""}, {"instance": "db1:9101"})
            if one[0].startswith("node")
        ),
    ]
    for k in range(12):
        samples += exported(table()[-9:], {"instance": f"pod{k:02}:9104"})
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        asked = ("analyze", "--prometheus", url, *SPAN)
        for words, expected in (
            (
                (),
                [
                    "db1:9104: several hosts match: db1:9100, db1:9101;"
                    " choose one with --host-selector",
                    f"{', '.join(f'pod{k:02}:9104' for k in range(10))}, …: no host matches 12 of"
                    " 14 servers, whose CPU is therefore not known; match hosts with --join LABEL,"
                    " or leave all hosts out with --no-hosts",
                ],
            ),
            (("--selector", '{instance="db0:9104"}'), []),
            (("--no-hosts",), []),
        ):
            assert main([*asked, *words]) == 0
            lines = capsys.readouterr().err.splitlines()
            assert lines == [f"mysql-headroom: {line}" for line in expected]


@pytest.mark.parametrize("words", [(), ("--no-hosts",)])
def test_a_replayed_server_without_a_host_is_named_with_the_remedy(
    url: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Its CPU is no limit then; unless that is what was asked for."""
    quarter = LENGTH // 4
    periods = (f"--before={START}..{START + quarter}", f"--after={END - quarter}..{END}")
    for command in (("replay", url, *SPAN, "--every", "2h"), ("compare", url, *periods)):
        assert main([*command, "--target", "[::1]:9104", *words]) == 0, command
        errors = capsys.readouterr().err
        assert ("[::1]:9104: no host matches this server," in errors) == (not words)


def test_a_host_that_is_busy_without_statements_is_named(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two servers that took 0.1 s of statements a second, one has a host with a busy processor.

    Its processors limit other programs, or the server's own work for no client.
    """
    mysql, host = {"job": "mysql"}, {"job": "node"}
    quiet = [row | {"statement_time_s": 0.01 * float(row["statement_time_s"])} for row in table()]
    idle = [row | {"host_cpu_busy_s": 0.01 * float(row["host_cpu_busy_s"])} for row in quiet]
    samples = (
        *exported(quiet, {**mysql, "instance": "a:9104"}, {**host, "instance": "a:9100"}),
        *exported(idle, {**mysql, "instance": "b:9104"}, {**host, "instance": "b:9100"}),
    )
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        assert main(["analyze", "--prometheus", url, *SPAN]) == 0
        told = capsys.readouterr().err.strip()
        assert main(["replay", url, "--target", "a:9104", *SPAN]) == 0
        assert capsys.readouterr().err.strip() == told
        assert main(["analyze", "--prometheus", url, *SPAN, "--no-hosts"]) == 0
    assert told == (
        "mysql-headroom: a:9104: most of the host's CPU time is not of statements; if it is of"
        " other programs, and not of a replica's appliers, give --no-hosts"
    )
    assert capsys.readouterr().err == ""


def test_a_server_that_has_moved_has_no_host(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither of the two is its host all the time; of the time on one of them that one is."""
    half, samples = len(table()) // 2, list[Sample]()
    for node, part in (("b", table()[:half]), ("a", table()[half:])):
        samples += exported(part, {"instance": "db1:9104", "node": node})
        of_host = exported(table(), {"mode": ""}, {"instance": f"{node}:9100", "node": node})
        samples += (one for one in of_host if one[0].startswith("node"))
    known = []
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        for since in ("2h", "55m"):
            asked = ("--since", since, "--until", str(END), "--join", "node", "--format", "json")
            assert main(["analyze", "--prometheus", url, *asked]) == 0
            [target] = json.loads(capsys.readouterr().out)["targets"]
            known.append("cpu" in target["load"]["utilisation"])
    assert known == [False, True]


@pytest.mark.parametrize("exporter", sorted(SERVICES))
def test_exporters_of_rds_give_the_cpu(
    rds_url: str, exporter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their utilisation of an instance is the CPU that node_exporter counts of a host."""
    name = f"{exporter}.abc.rds.example:3306"
    only = ("--selector", f'{{instance="{name}"}}', "--interval", "5m")
    _, found = analysed(capsys, rds_url, *only, "--hosts-from", exporter)
    _, of_a_host = analysed(
        capsys, rds_url, "--selector", '{instance="db1:9104"}', "--interval", "5m"
    )
    used, known = (
        answer[which]["load"]["utilisation"]["cpu"]
        for answer, which in ((found, name), (of_a_host, "db1:9104"))
    )
    assert used == pytest.approx(known, rel=0.02)
    assert found[name]["capacity"]["value"] == pytest.approx(
        of_a_host["db1:9104"]["capacity"]["value"], rel=0.05
    )


def test_a_number_of_processors_that_is_none_is_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the option."""
    for wrong in ("0", "many", "inf"):
        with pytest.raises(SystemExit, match="2"):
            main(["analyze", "--prometheus", url, "--vcpus", wrong])
        assert "--vcpus" in capsys.readouterr().err


def analysed_alone(
    capsys: pytest.CaptureFixture[str], prometheus: str, data: Path, *words: str
) -> tuple[int, list[Json], str]:
    """The exit code, the targets and the errors of `analyze` on that database."""
    with serving(prometheus, data) as url:
        code = main(["analyze", "--prometheus", url, *SPAN, "--format", "json", *words])
    shown = capsys.readouterr()
    return code, json.loads(shown.out)["targets"], shown.err


def test_a_host_may_be_scraped_less_often_than_its_server(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once a minute, where the server is every 15 s: its CPU is known, in intervals of both."""
    server, host = {"job": "mysql", "instance": "db1:9104"}, {"instance": "db1:9100"}
    of_host = exported(table()[:: 60 // STEP], server, host)
    samples = [*exported(table(), server), *(one for one in of_host if one[0].startswith("node"))]
    code, [found], _ = analysed_alone(capsys, prometheus, fill(tmp_path, promtool, samples))
    assert code == 0
    limits = {limit["resource"]: limit for limit in found["resource_limits"]}
    assert limits["cpu"]["service_demand"] == pytest.approx(DEMAND / 2, rel=0.02)
    assert len(found["points"]) == pytest.approx(LENGTH / 120, abs=2)


def test_a_job_may_scrape_some_of_an_exporters_collectors(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The statements' time once a minute, by a job of its own: it is the server's all the same."""
    name = {"instance": "db1:9104"}
    fast = exported(table(), {**name, "job": "mysql"})
    slow = exported(table()[2 :: 60 // STEP], {**name, "job": "mysql-slow"})
    samples = [
        *(one for one in fast if one[0] != STATEMENT_TIME),
        *((*one[:2], one[2] + 7, one[3]) for one in slow if one[0] == STATEMENT_TIME),
    ]
    data = fill(tmp_path, promtool, samples)
    code, [found], error = analysed_alone(capsys, prometheus, data, "--no-hosts")
    assert (code, error, found["concurrency_source"]) == (0, "", "statement_time")
    assert len(found["points"]) == pytest.approx(LENGTH / 120, abs=2)


@pytest.mark.parametrize("column", ["uptime_s", "questions", "server_id"])
@pytest.mark.parametrize("site", [{"site": "a"}, {}])
def test_servers_that_share_an_instance_are_not_taken_for_replicas(
    prometheus: str,
    promtool: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    site: dict[str, str],
    column: str,
) -> None:
    """As where each site has an `exporter:9104`: one line says so, unless one is chosen.

    One is known by its start, or, if both were started at once, by its statements or its number.
    """
    name, change = {"instance": "exporter:9104"}, {"uptime_s": -900.0, "questions": 20_000.0}
    ours = [row | {"server_id": 1.0} for row in table()]
    others = [row | {column: float(row[column]) + change.get(column, 1.0)} for row in ours[:300]]
    samples = [
        *exported(ours, name | site),
        *exported(others, {**name, "site": "b"}),
        *exported(table(), {"instance": "db1:9104"}),
    ]
    first = f'{{site="{site.get("site", "")}"}}'
    text = f'exporter:9104 is the name of several servers: {first} and {{site="b"}}; name each with'
    data = fill(tmp_path, promtool, samples)
    code, found, error = analysed_alone(capsys, prometheus, data, "--no-hosts")
    assert (code, [target["target"] for target in found]) == (1, ["db1:9104"])
    assert text in error
    assert error.count("\n") == 1
    with serving(prometheus, data) as url:
        for chosen in (first, '{site="b"}'):
            asked = ("--prometheus", url, *SPAN, "--selector", chosen, "--format", "csv")
            assert main(["analyze", *asked]) == 0
            assert "exporter:9104" in capsys.readouterr().out
        assert text in one_line(capsys, main(["replay", url, *SPAN, "--target", "exporter:9104"]))


def test_where_no_server_can_be_analysed_the_errors_stand_alone(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No table of which only the header is there, and no plot; JSON and CSV stay what they are."""
    names = ({"instance": "exporter:9104", "site": site} for site in "ab")
    older = [row | {"uptime_s": 9e6 + float(row["uptime_s"])} for row in table()]
    samples = [*exported(table(), next(names)), *exported(older, next(names))]
    plot = tmp_path / "fleet.svg"
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        asked = ("analyze", "--prometheus", url, *SPAN, "--no-hosts")
        for words, lines in (("--plot", str(plot)), 0), (("--format", "csv"), 1):
            assert main([*asked, *words]) == 1
            shown = capsys.readouterr()
            assert shown.out.count("\n") == lines
            assert shown.err.startswith("mysql-headroom: exporter:9104 is the name of several")
            assert shown.err.count("\n") == 1
    assert not plot.exists()


def test_hosts_that_share_an_instance_are_not_taken_for_replicas(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that is chosen needs its host chosen too, unless none is read."""
    of_two_sites = [
        (name, {**labels, "site": site}, at, value + since)
        for site, since in (("a", 0.0), ("b", 5000.0))
        for name, labels, at, value in exported(
            table(), {"instance": "db1:9104"}, {"instance": "db1:9100"}
        )
    ]
    with serving(prometheus, fill(tmp_path, promtool, of_two_sites)) as url:
        asked = ("--prometheus", url, *SPAN, "--format", "csv", "--selector", '{site="a"}')
        assert main(["analyze", *asked]) == 1
        text = 'db1:9100 is the name of several hosts: {site="a"} and {site="b"}; choose a host '
        assert text in capsys.readouterr().err
        for words in (("--host-selector", '{site="a"}'), ("--no-hosts",)):
            assert main(["analyze", *asked, *words]) == 0
        assert capsys.readouterr().err == ""


def test_replicas_of_a_full_host_may_be_scraped_minutes_apart(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its processor is never idle: the time since the start of the idle time goes on meanwhile."""
    step, server, name = 300 // STEP, {"instance": "db1:9104"}, {"instance": "db1:9100"}
    samples = [
        *exported(table(), server),
        *(
            (metric, labels, at, 7.0 if labels["mode"] == "idle" else value)
            for k, replica in enumerate("ab")
            for metric, labels, at, value in exported(
                table()[k * step // 2 :: step], {"mode": ""}, {**name, "replica": replica}
            )
            if metric.startswith("node")
        ),
    ]
    code, found, error = analysed_alone(capsys, prometheus, fill(tmp_path, promtool, samples))
    assert (code, error) == (0, "")
    assert "cpu" in found[0]["load"]["utilisation"]


@pytest.mark.parametrize("lost", ["mysql_global_status_uptime", "mysql_global_status_threads_run"])
def test_a_series_that_no_scrape_keeps_is_named(
    lost: str, prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it there is no interval, however long one waits; by each command that reads it."""
    samples = exported(table(), {"job": "mysql", "instance": "db1:9104"})
    kept = (sample for sample in samples if not sample[0].startswith(lost))
    with serving(prometheus, fill(tmp_path, promtool, kept)) as url:
        for words in (("analyze", "--prometheus", url, "--no-hosts"), ("replay", url)):
            assert main([*words, *SPAN]) == 1, words
            shown = capsys.readouterr()
            assert f"db1:9104: Prometheus has no {lost}" in shown.err
            assert " of it; have mysqld_exporter's scrape keep them" in shown.err
            assert shown.out == ""


def test_labels_that_change_end_no_series(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new pod, or a label that is added to a job: what comes later is of the same server."""
    cut, named, samples = len(table()) * 3 // 4, ("changed", "same"), list[Sample]()
    for name, pods in zip(named, ("ab", "aa"), strict=True):
        for pod, part in zip(pods, (table()[:cut], table()[cut:]), strict=True):
            labels = ({"instance": f"{name}:{port}", "pod": pod} for port in (9104, 9100))
            samples += exported(part, *labels)
    code, found, error = analysed_alone(capsys, prometheus, fill(tmp_path, promtool, samples))
    assert (code, error) == (0, "")
    changed, same = (nearly(target) for target in found)
    assert same["load"]["utilisation"]["cpu"] > 0
    assert len(same["points"]) > LENGTH / 30 - 4
    assert changed | {"target": same["target"]} == same


@pytest.mark.parametrize("restarted", [False, True])
def test_replicas_of_a_series_may_have_gaps_and_other_clocks(
    prometheus: str,
    promtool: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    restarted: bool,
) -> None:
    """Two Prometheus of which one was down while the server was restarted are of one server."""
    whole = table()
    if restarted:
        whole = [row | {"uptime_s": k * STEP} if k > 160 else row for k, row in enumerate(whole)]
    holes = [
        row | {"t_s": float(row["t_s"]) + 7.5} for k, row in enumerate(whole) if not 150 < k < 300
    ]
    name = {"instance": "db1:9104"}
    samples = [
        *exported(whole[100:400], {**name, "replica": "a"}),
        *exported(holes, {**name, "replica": "b"}),
    ]
    data = fill(tmp_path, promtool, samples)
    code, found, error = analysed_alone(capsys, prometheus, data, "--no-hosts")
    assert (code, error, len(found)) == (0, "", 1)


def asked_of(capsys: pytest.CaptureFixture[str], url: str, *words: str, code: int = 1) -> str:
    """What a failing `analyze` says: one line, and nothing on standard output."""
    assert main(["analyze", "--prometheus", url, *SPAN, *words]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err


def test_a_server_that_cannot_be_asked_is_one_line(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the URL and the remedy: no server, no Prometheus, no such series, no selector."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    nobody = f"http://127.0.0.1:{free_port()}"
    assert f"{nobody}: no answer" in asked_of(capsys, nobody)
    assert "or give a longer --timeout; tried 4 times" in asked_of(capsys, nobody)
    assert "check the URL, which ends before /api/v1" in asked_of(capsys, f"{url}/api/v1")
    assert "check the selector" in asked_of(capsys, url, "--selector", '{job=="x"}')
    assert "it has no such server" in asked_of(capsys, url, "--selector", '{job="x"}')
    assert main(["replay", url, *SPAN, "--selector", '{job="x"}']) == 1
    assert "Prometheus has no such server in that time; check" in capsys.readouterr().err
    assert "is not a URL" in asked_of(capsys, "prometheus:9090", code=2)
    assert "does not belong in the URL" in asked_of(capsys, "http://a:b@localhost:9090", code=2)
    assert "no certificates (No such file" in asked_of(capsys, url, "--ca", "/no/such", code=2)
    assert "no certificates (not in PEM format)" in asked_of(capsys, url, "--ca", __file__, code=2)
    login = ("--user", "u", "--password-file", "/no/such")
    assert "/no/such: cannot be read" in asked_of(capsys, url, *login, code=2)


def test_a_login_and_a_certificate_are_used_and_asked_for(
    prometheus: str, filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over TLS with basic authentication; without either, one line says which option gives it."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "127.0.0.1", usage=SERVER)
    password = tmp_path / "password"
    password.write_text("secret\n")
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    web = {
        "tls_server_config": {"cert_file": str(certificate), "key_file": str(key)},
        "basic_auth_users": {"headroom": hashed},
    }
    data = tmp_path / "data"
    shutil.copytree(filled, data)
    with serving(prometheus, data, web, "https") as secured:
        login = ("--user", "headroom", "--password-file", str(password))
        code, found = analysed(capsys, secured, "--ca", str(authority.file), *login)
        assert (code, len(found)) == (0, 3)
        assert "give its CA certificate with --ca" in asked_of(capsys, secured, *login)
        text = asked_of(capsys, secured, "--ca", str(authority.file))
        assert "login refused (401); give --user with --password-file" in text
        password.write_text("wrong\n")
        text = asked_of(capsys, secured, "--ca", str(authority.file), *login)
        assert "login refused (401); check --user with --password-file" in text


class Gate(BaseHTTPRequestHandler):
    """Stands before a Prometheus: asks for a token, and refuses a question the first time (503)."""

    upstream = ""
    asked: ClassVar[set[bytes]] = set()

    def do_POST(self) -> None:
        """Forward what has the token, at its second try."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers.get("Authorization") == "Bearer open sesame"
        if not is_known or body not in self.asked:
            self.asked.add(body)
            self._answer(503 if is_known else 401, b"busy")
            return
        with urllib.request.urlopen(self.upstream + self.path, body, timeout=30) as answer:
            self._answer(200, answer.read())

    def _answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_token_is_shown_and_a_busy_server_is_asked_again(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question fails once, and the document is the same."""
    monkeypatch.setattr("agent.prometheus.client.MIN_PAUSE", 0.01)
    monkeypatch.setattr(Gate, "upstream", url)
    monkeypatch.setattr(Gate, "asked", set())
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    direct = analysed(capsys, url)
    with ThreadingHTTPServer(("127.0.0.1", 0), Gate) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            gate = f"http://127.0.0.1:{server.server_address[1]}"
            assert analysed(capsys, gate, "--token-file", str(token)) == direct
            assert "--token-file" in asked_of(capsys, gate)
        finally:
            server.shutdown()


class Partial(Gate):
    """Stands before a Prometheus, and answers as a Thanos, of which a store is down, would."""

    lacking: ClassVar[Json] = {}
    tenants: ClassVar[set[str | None]] = set()

    def do_POST(self) -> None:
        """Forward all, and add what is lacking."""
        self.tenants.add(self.headers.get("X-Scope-OrgID"))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with urllib.request.urlopen(self.upstream + self.path, body, timeout=30) as answer:
            self._answer(200, json.dumps(json.loads(answer.read()) | self.lacking).encode())


@pytest.fixture
def partial(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The Prometheus behind it."""
    monkeypatch.setattr(Partial, "upstream", url)
    monkeypatch.setattr(Partial, "tenants", set())
    with ThreadingHTTPServer(("127.0.0.1", 0), Partial) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("lacking", "causes"),
    [
        ({"warnings": ["store 10.0.0.9: refused"]}, ["store 10.0.0.9: refused"]),
        ({"isPartial": True}, ["not all of its storage answered"]),
        ({"warnings": [], "infos": ["metric might not be a counter"], "isPartial": False}, []),
        ({"warnings": ["PromQL warning: quantile value should be between 0 and 1"]}, []),
        ({"warnings": None}, []),
    ],
)
def test_an_answer_that_is_not_complete_is_reported_once(
    partial: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lacking: Json,
    causes: list[str],
) -> None:
    """As Thanos and VictoriaMetrics say it; what is there is analysed."""
    monkeypatch.setattr(Partial, "lacking", lacking)
    assert main(["analyze", "--prometheus", partial, *SPAN, "--no-hosts"]) == 0
    shown = capsys.readouterr()
    assert "db1:9104" in shown.out
    assert shown.err.splitlines() == [
        f"mysql-headroom: {partial}: an answer may not be complete: {cause}" for cause in causes
    ]


def test_a_tenant_is_named_and_two_logins_are_refused(
    partial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a Mimir, which refuses a question without one; a login is either a user or a token."""
    assert main(["analyze", "--prometheus", partial, *SPAN, "--tenant", "shop"]) == 0
    assert Partial.tenants == {"shop"}
    assert main(["replay", partial, *SPAN, "--target", "db1:9104", "--every", "2h"]) == 0
    assert Partial.tenants == {"shop", None}
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    both = ("--user", "u", "--token-file", str(token))
    capsys.readouterr()
    assert "are two logins: give one of them" in asked_of(capsys, partial, *both, code=2)


def test_a_server_of_prometheus_is_replayed_as_its_recording(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step of `replay URL` says what that of the same samples in a file says."""
    known = [{n: value for n, value in row.items() if n != "server_cpu_s"} for row in table()[1:]]
    file = written(tmp_path / "db.csv", known)
    options = ("--target", "db1:9104", "--interval", "30s", "--every", "30m", "--format", "json")
    said = []
    for source in (url, str(file)):
        of_prometheus = SPAN if source == url else ("--sampling", str(STEP))
        assert main(["replay", source, *options, *of_prometheus]) == 0
        lines = capsys.readouterr().out.splitlines()
        said.append([nearly(json.loads(line)) for line in lines])
    assert len(said[0]) == 5
    assert said[0] == said[1]
    assert main(["replay", url, *SPAN]) == 2
    text = (
        "several servers: [::1]:9104, db1:9104, db2:9104, db4:9104; choose one with --target NAME"
    )
    assert text in capsys.readouterr().err
    assert main(["replay", url, *SPAN, "--target", "x"]) == 2
    assert "no server 'x'; the servers are [::1]:9104" in capsys.readouterr().err


def test_the_settings_of_a_configured_target_are_used_for_a_server_of_prometheus(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name is not the server's there, which the selector chooses."""
    config = tmp_path / "config.yaml"
    of_shop = "resources: {ceilings: {cpu: 0.5}}, sla_seconds: 20ms"
    config.write_text(
        "fit: {interval: 30s}\n"
        f"targets: [{{name: shop, user: u, {of_shop}}}, {{name: b, user: u}}]\n"
    )
    plain = ("replay", url, *SPAN, "--every", "2h", "--format", "json", "--interval", "30s")
    settings = ("--config.file", str(config), "--target", "shop")
    found = []
    for words in (("--target", "db1:9104"), ("--selector", '{instance="db1:9104"}', *settings)):
        assert main([*plain, *words]) == 0
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    used = [line["load"]["utilisation"]["cpu"] for line in found]
    assert used[1] == pytest.approx(2 * used[0])
    assert [line["sla"] and line["sla"]["seconds"] for line in found] == [None, 0.02]
    assert {line["target"] for line in found} == {"db1:9104"}
    text = """choose one with --selector '{instance="INSTANCE"}'"""
    assert text in one_line(capsys, main([*plain, *settings]))


def test_a_period_without_a_sample_is_one_line(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a server whose series exist before and after it; `compare` says the same."""
    step, silent = 60, (START + 1830, START + 5400)
    table = [
        row
        for row in rows(LENGTH, step=step, start=START)
        if not silent[0] < float(row["t_s"]) <= silent[1]
    ]
    samples = exported(table, {"job": "mysql", "instance": "db1:9104"})
    text = (
        f"db1:9104: no samples from {time_text(silent[0])} to {time_text(silent[1])};"
        " choose another period"
    )
    span = ("--since", f"{silent[1] - silent[0]}s", "--until", str(silent[1]))
    periods = ("--before", f"{silent[0]}..{silent[1]}", "--after", f"{silent[1]}..{END}")
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        for words in ((), ("--format", "json"), ("--at", str(silent[1]))):
            assert text in one_line(capsys, main(["replay", url, *span, *words]))
        assert text in one_line(capsys, main(["compare", url, *periods]))
