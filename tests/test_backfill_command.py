"""The command `backfill`: an agent's history from the series of a real Prometheus."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
import yaml
from error_lines import one_line
from history_rows import SERVER, SETTINGS, batch, is_sound
from prometheus_server import exported, fill, serving
from recordings import LAW, rows

from agent.assessment.snapshot import AssessmentState, Health
from agent.cli import main
from agent.config.settings import FitSettings
from agent.demo.private_server import PrivateServer, free_port
from agent.history.history_recorder import HistoryRecorder
from agent.history.store import Store
from agent.pipeline import assess
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from testbed.real.clients import run_as_root
from testbed.real.daemon import target

START, LENGTH, STEP, WIDTH = 1_790_000_000, 7200, 15, 30.0
END = START + LENGTH
FIT = FitSettings(interval=WIDTH, window=float(LENGTH))


@pytest.fixture(scope="module")
def url(prometheus: str, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with two hours of one server and its host."""
    table = rows(LENGTH, step=STEP, start=START)
    labels = {"job": "mysql", "instance": "db1:9104"}
    samples = exported(table, labels, {"job": "node", "instance": "db1:9100"})
    folder = tmp_path_factory.mktemp("backfill")
    with serving(prometheus, fill(folder, promtool, samples)) as found:
        yield found


def configured(folder: Path, interval: str = "30s") -> Path:
    """The configuration of an agent with one target, and the file of its history."""
    (folder / "state").mkdir(mode=0o700, parents=True)
    file, secret = folder / "config.yaml", folder / "password"
    secret.write_text("p\n")
    secret.chmod(0o600)
    file.write_text(
        f"targets: [{{name: shop, host: db1, user: u, password_file: {secret}}}]\n"
        f"fit: {{interval: {interval}, window: 2h}}\n"
        f"history: {{path: {folder / 'state' / 'history.db'}}}\n"
    )
    return file


def backfilled(url: str, file: Path, *words: str) -> int:
    """The exit code of `backfill` of the whole two hours."""
    asked = ("--prometheus", url, "--config.file", str(file), "--server", SERVER)
    return main(["backfill", *asked, "--since", "2h", "--until", str(END), *words])


def written_rows(file: Path) -> list[tuple[object, ...]]:
    """All intervals of the history as they are stored."""
    with closing(sqlite3.connect(file.parent / "state" / "history.db")) as connection:
        return connection.execute("SELECT * FROM interval ORDER BY at").fetchall()


def test_a_new_agents_first_assessment_uses_the_backfilled_intervals(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent that starts then reads two hours of the known law, with its host's processors."""
    file = configured(tmp_path)
    assert backfilled(url, file) == 0
    count = len(written_rows(file))
    assert count == pytest.approx(LENGTH / WIDTH, abs=3)
    assert f"shop: {count} intervals of 30s added from db1:9104, 0 existed already" in (
        capsys.readouterr().out
    )
    store = Store(tmp_path / "state" / "history.db", SETTINGS)
    recorder, history = (
        HistoryRecorder(store, "shop"),
        IntervalBuffer(WIDTH, FIT.window, sampling=1.0),
    )
    now = ClockPair(5.0, END + 1.0)
    try:
        history.switch_server(SERVER)
        recorder.follow_server(history, now)
        store.tick(5.0)
        recorder.follow_server(history, now)
    finally:
        store.close()
    window = history.window(now.monotonic)
    assert len(window) == pytest.approx(count, abs=2)
    assert float(window["throughput"].max()) == pytest.approx(float(LAW.throughput(15.0)), rel=0.01)
    known = assess("shop", window, Health(True), AssessmentState(), FIT, now)
    assert known.assessed.capacity is not None
    assert known.assessed.capacity.value == pytest.approx(7700, rel=0.1)
    assert "cpu" in window.utilisations


def test_samples_from_before_scrapes_became_more_frequent_are_used(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The latest as intervals of the configured width, what is older as wider ones."""
    table = list(rows(LENGTH, step=STEP, start=START))
    middle = len(table) // 2
    known = [*table[: middle : 60 // STEP], *table[middle:]]
    file = configured(tmp_path)
    labels = {"job": "mysql", "instance": "db1:9104"}
    with serving(prometheus, fill(tmp_path, promtool, exported(known, labels))) as url:
        assert backfilled(url, file) == 0
    with closing(sqlite3.connect(file.parent / "state" / "history.db")) as connection:
        counts = connection.execute("SELECT seconds, COUNT(*) FROM interval GROUP BY 1").fetchall()
    assert dict(counts) == {
        30.0: pytest.approx(LENGTH / 2 / 30, abs=3),
        120.0: pytest.approx(LENGTH / 2 / 120, abs=3),
    }
    shown = capsys.readouterr()
    assert "intervals of 2m added from db1:9104" in shown.out
    assert "they are used for the forecast only" in shown.err


def test_a_server_without_a_host_is_named_with_the_remedy(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its rows, once written, stay without CPU."""
    for words, is_told in (
        ((), False),
        (("--join", "pod"), True),
        (("--no-hosts",), False),
    ):
        file = configured(tmp_path / f"{len(words)}{is_told}")
        assert backfilled(url, file, *words) == 0
        is_named = "db1:9104: no host matches this server," in capsys.readouterr().err
        assert is_named == is_told, words


def test_an_exporter_is_found_by_its_ipv6_address(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With brackets in a label, where a port follows, and without in the configuration."""
    table = list(rows(LENGTH, step=STEP, start=START))
    names = ("[2001:db8::1]:9104", "[2001:db8::2]:9104")
    both = chain(*(exported(table, {"job": "mysql", "instance": name}) for name in names))
    file = configured(tmp_path)
    file.write_text(file.read_text().replace("host: db1", "host: '2001:db8::2'"))
    with serving(prometheus, fill(tmp_path, promtool, both)) as url:
        assert backfilled(url, file) == 0
    assert "intervals of 30s added from [2001:db8::2]:9104" in capsys.readouterr().out


@pytest.mark.parametrize("host", ["db2", "10.0.0.2", "localhost", "127.0.0.1"])
def test_another_hosts_exporter_is_used_only_if_named(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    """A single one may be of another server, unless the target has no host name."""
    file = configured(tmp_path)
    file.write_text(file.read_text().replace("host: db1", f"host: {host}"))
    if host in ("db2", "10.0.0.2"):
        text = (
            f"shop: no exporter on its host {host}; choose one with --instance INSTANCE: db1:9104"
        )
        assert text in one_line(capsys, backfilled(url, file))
        assert not (tmp_path / "state" / "history.db").exists()
        assert backfilled(url, file, "--instance", "db1:9104") == 0
    else:
        assert backfilled(url, file) == 0
    assert "added from db1:9104" in capsys.readouterr().out


@pytest.mark.live
@pytest.mark.parametrize(
    ("later", "port", "is_refused"),
    [(0, 0, False), (-120, 0, False), (-3600, 0, True), (0, 1, True)],
    ids=["itself", "another clock", "another start", "another port"],
)
def test_an_exporter_of_another_server_is_refused(
    prometheus: str,
    promtool: str,
    mysql_server: PrivateServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    later: int,
    port: int,
    is_refused: bool,
) -> None:
    """Two servers of one host differ in their start, or at least in their port."""
    uptime = int(run_as_root(mysql_server, "SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])
    end = int(time.time()) + 60
    started = end - 60 - uptime + later
    table = [
        row | {"uptime_s": 50_000 + at - started if at < started else at - started}
        for row in rows(LENGTH, step=STEP, start=end - LENGTH)
        for at in [float(row["t_s"])]
    ]
    labels = {"job": "mysql", "instance": "127.0.0.1:9104"}
    of_port = [
        ("mysql_global_variables_port", labels, float(row["t_s"]), mysql_server.port + port)
        for row in table
    ]
    file = configured(tmp_path)
    account = target(tmp_path, mysql_server, name="shop")
    words = yaml.safe_load(file.read_text()) | {"targets": [account]}
    file.write_text(yaml.safe_dump(words))
    asked = ["backfill", "--config.file", str(file), "--since", "2h", "--until", str(end)]
    samples = chain(exported(table, labels), of_port)
    with serving(prometheus, fill(tmp_path, promtool, samples)) as url:
        if is_refused:
            told = one_line(capsys, main([*asked, "--prometheus", url]))
            assert "127.0.0.1:9104 has another server, started at " in told
            asked += ["--server", SERVER]
        assert main([*asked, "--prometheus", url]) == 0
    assert "added from 127.0.0.1:9104" in capsys.readouterr().out


def test_existing_intervals_are_kept_and_gaps_are_filled(url: str, tmp_path: Path) -> None:
    """A second run adds nothing; the agent's own intervals stay."""
    file = configured(tmp_path)
    assert backfilled(url, file) == 0
    whole = written_rows(file)
    assert backfilled(url, file) == 0
    assert written_rows(file) == whole
    with closing(sqlite3.connect(tmp_path / "state" / "history.db")) as connection:
        gone = "DELETE FROM interval WHERE at BETWEEN ? AND ?"
        connection.execute(gone, (1000 * (START + 600), 1000 * (START + 1200)))
        connection.execute(
            "UPDATE interval SET throughput = 1, at = at - 7000 WHERE at > ?", (1000 * (END - 600),)
        )
        connection.commit()
    kept = written_rows(file)
    assert len(kept) < len(whole)
    assert backfilled(url, file) == 0
    found = written_rows(file)
    assert set(kept) <= set(found)
    ours = [row for row in found if row not in set(kept)]
    assert set(ours) <= set(whole)
    assert len(ours) == pytest.approx(600 / WIDTH, abs=2)


def test_a_running_agent_continues_writing(url: str, tmp_path: Path) -> None:
    """Its file is open meanwhile: it finds it valid, and adds its own intervals."""
    file = configured(tmp_path)
    path = tmp_path / "state" / "history.db"
    store = Store(path, SETTINGS)
    try:
        store.tick(1.0)
        assert backfilled(url, file) == 0
        store.tick(2.0)
        assert store.state.success
        assert store.state.corrupt_files == 0
        assert not store.state.failures
        count = len(written_rows(file))
        store.put(batch(0, "shop"))
        store.tick(3.0)
        assert store.state.success
        assert len(written_rows(file)) == count + 1
    finally:
        store.close()
    assert is_sound(path)


def test_wider_intervals_are_reported_as_used_for_the_forecast_only(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples 15 s apart make no intervals of 15 s; the message has the remedy."""
    assert backfilled(url, configured(tmp_path, "15s")) == 0
    assert "they are used for the forecast only; with fit.interval: 30s" in capsys.readouterr().err


def test_an_unreadable_source_is_one_line(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown server, and a Prometheus that does not answer; nothing is written."""
    file = configured(tmp_path)
    assert "no server 'other'" in one_line(capsys, backfilled(url, file, "--instance", "other"))
    assert backfilled(f"http://127.0.0.1:{free_port()}", file) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert not (tmp_path / "state" / "history.db").exists()


def test_a_target_that_is_down_is_a_failure_and_no_usage_error(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a named server: one line with both remedies, and the code of a failure."""
    file = configured(tmp_path)
    file.write_text(file.read_text().replace("host: db1", f"host: 127.0.0.1, port: {free_port()}"))
    assert main(["backfill", "--prometheus", url, "--config.file", str(file)]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("mysql-headroom: shop: ")
    assert shown.err.endswith("; start it, or give its server_identity with --server ID\n")
    assert (shown.out, shown.err.count("\n")) == ("", 1)
