"""Deploy markers: set by command and HTTP, kept in the history, shown, and compared around."""

import html
import json
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from error_lines import one_line
from history_rows import SETTINGS, batch
from law_windows import RISING, intervals, known
from test_replay_history import SERVER, history, real_intervals
from web_clients import NOW, ask, listening, password_hash, snapshot, written

from agent.assessment.deploy_markers import MAX_MARKERS, MAX_NAME_LENGTH, Marker, Markers
from agent.cli import main
from agent.config.settings import Config
from agent.export.page import render
from agent.export.page_colours import BLUE_60
from agent.history.marker_table import delete_markers_before, insert_markers, read_markers
from agent.history.open_database import open_to_read, open_to_write
from agent.history.store import Store
from agent.service.daemon import Agent
from agent.web.marker_requests import MARKERS, MAX_PER_MINUTE
from agent.web.reloading_config import WebConfigFile

TARGET = "db<1>"


@pytest.fixture
def found() -> list[Marker]:
    """The markers that were set."""
    return []


@pytest.fixture
def port(found: list[Marker]) -> Iterator[int]:
    """Pages of one target, where markers can be set."""
    with listening(snapshot(True), mark=found.append, markers=found) as server:
        yield server.server_port


def post(port: int, *fields: tuple[str, str], **headers: str) -> tuple[int, str]:
    """Status and text of the answer to a POST."""
    path = f"{MARKERS}?{urlencode(fields)}"
    status, _, text = ask(port, path, "POST", tls=None, source="127.0.0.1", **headers)
    return status, text


def test_a_marker_is_set_for_one_target_or_for_all(port: int, found: list[Marker]) -> None:
    """Its time is now by default, and the response says what was set."""
    assert post(port, ("name", "release 4.2"))[0] == 200
    status, text = post(port, ("name", "größer"), ("target", TARGET), ("at", str(NOW - 60)))
    assert (status, json.loads(text)) == (200, {"at": NOW - 60, "name": "größer", "target": TARGET})
    assert found == [Marker(NOW, "release 4.2"), Marker(NOW - 60, "größer", TARGET)]


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ((), 400, "400 name: missing; give it in the query string, as ?name=release"),
        ((("name", ""),), 400, "400 name: '' is not a marker name; give 1 to 100 printable"),
        ((("name", "a" * (MAX_NAME_LENGTH + 1)),), 400, "1 to 100 printable characters"),
        ((("name", "a\x1b[2J"),), 400, "400 name: 'a\\x1b[2J' is not a marker name"),
        ((("name", " a"),), 400, "with no space around them"),
        ((("name", "a"), ("at", "soon")), 400, "400 at: must be Unix seconds"),
        ((("name", "a"), ("at", "nan")), 400, "400 at: must be Unix seconds"),
        ((("name", "a"), ("at", "-1")), 400, "400 at: must be Unix seconds"),
        ((("name", "a"), ("at", str(NOW + 3600))), 400, "at: this time is in the future"),
        ((("name", "a"), ("name", "b")), 400, "name: given twice"),
        ((("nmae", "a"),), 400, "nmae: unknown field; allowed are name, target, at"),
        ((("name", "a"), ("target", "other")), 404, "404 no such target"),
        (tuple(("name", str(k)) for k in range(9)), 400, "more than 3 fields"),
    ],
)
def test_an_invalid_marker_is_refused_in_one_line(
    port: int,
    found: list[Marker],
    fields: tuple[tuple[str, str], ...],
    status: int,
    text: str,
) -> None:
    """It names the field and the remedy, and nothing is set."""
    answer = post(port, *fields)
    assert answer[0] == status
    assert text in answer[1]
    assert answer[1].count("\n") == 1
    assert found == []


def test_a_marker_that_is_not_kept_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Its time is before all that an agent keeps, and it would not be listed."""
    kept, listed = Markers(3600.0, lambda: NOW), list[Marker]()

    def mark(marker: Marker) -> None:
        kept.add([marker])
        listed[:] = kept.known()

    with listening(snapshot(True), mark=mark, markers=listed) as server:
        assert post(server.server_port, ("name", "a"), ("at", str(NOW - 3500)))[0] == 200
        status, text = post(server.server_port, ("name", "b"), ("at", str(NOW - 3700)))
        agent = ("--agent", f"http://127.0.0.1:{server.server_port}")
        code = main(["mark", "--name", "b", "--at", str(int(NOW - 3700)), *agent])
    assert "--at: markers of that time are no longer kept" in one_line(capsys, code)
    assert status == 400
    assert text == "400 at: markers of that time are no longer kept; give a later one\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "null"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Host": "evil"}, 421)],
)
def test_no_browser_page_can_set_a_marker(
    port: int, found: list[Marker], headers: dict[str, str], status: int
) -> None:
    """Neither cross-site nor by DNS rebinding."""
    assert post(port, ("name", "a"), **headers)[0] == status
    assert found == []


def test_markers_per_minute_are_limited(port: int, found: list[Marker]) -> None:
    """Further ones get 429."""
    answers = [post(port, ("name", str(k)))[0] for k in range(MAX_PER_MINUTE + 3)]
    assert answers == [200] * MAX_PER_MINUTE + [429] * 3
    assert len(found) == MAX_PER_MINUTE


def test_markers_are_listed_for_all_targets_or_for_one() -> None:
    """Each once, oldest first; GET alone sets none."""
    both, own = Marker(NOW - 9, "both"), Marker(NOW - 5, "own", "b")
    first, second = (replace(snapshot(True), target=name) for name in "ab")
    with listening(first, second, markers=(both, own)) as server:
        port = server.server_port
        listed = json.loads(ask(port, MARKERS)[2])["markers"]
        assert listed == [
            {"at": NOW - 9, "name": "both", "target": None},
            {"at": NOW - 5, "name": "own", "target": "b"},
        ]
        assert len(json.loads(ask(port, f"{MARKERS}?target=a")[2])["markers"]) == 1
        assert ask(port, f"{MARKERS}?target=c")[0] == 404
        assert ask(port, MARKERS, "PUT")[0] == 405
        assert post(port, ("name", "a")) == (403, "403 setting markers is not enabled\n")


def test_the_command_sets_a_marker_with_the_right_login(
    tmp_path: Path, found: list[Marker], capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong login, target or name is one line."""
    web = WebConfigFile(written(tmp_path, basic_auth_users={"ops": password_hash("secret")}))
    (password := tmp_path / "password").write_text("secret\n")
    with listening(snapshot(True), settings=web, mark=found.append, markers=found) as server:
        agent = ("--agent", f"http://127.0.0.1:{server.server_port}")
        login = (*agent, "--user", "ops", "--password-file", str(password))
        words = ("mark", "--name", "release 4.2")
        assert main([*words, "--target", TARGET, "--at", "2023-11-14T00:00Z", *login]) == 0
        assert capsys.readouterr().out == "marked 'release 4.2' for db<1>\n"
        assert found == [Marker(1_699_920_000.0, "release 4.2", TARGET)]
        assert main([*words, *agent]) == 1
        assert "login refused (401); give --user with" in capsys.readouterr().err
        (wrong := tmp_path / "wrong").write_text("guessed\n")
        assert main([*words, *agent, "--user", "ops", "--password-file", str(wrong)]) == 1
        assert "login refused (401); check --user with" in capsys.readouterr().err
        assert "no such target" in one_line(capsys, main([*words, "--target", "x", *login]))
        assert "--name: '' is not a marker" in one_line(
            capsys, main(["mark", "--name", "", *login])
        )
        assert "--at: 'soon' is not a time" in one_line(
            capsys, main([*words, "--at", "soon", *login])
        )
    assert len(found) == 1


def test_only_the_latest_markers_are_kept() -> None:
    """In memory as in the history, the oldest are dropped for new ones."""
    many = [Marker(NOW + k, str(k)) for k in range(MAX_MARKERS + 5)]
    markers = Markers(kept=1e9, clock=lambda: NOW)
    markers.add(many)
    assert markers.known() == tuple(many[5:])
    assert Markers(kept=60.0, clock=lambda: NOW).known() == ()
    recent = Markers(kept=60.0, clock=lambda: NOW + 100)
    recent.add(many[:60])
    assert recent.known() == tuple(many[40:60])


def test_a_renamed_target_keeps_its_markers() -> None:
    """Those of all and of other targets stay as they are."""
    markers = Markers(60.0, lambda: NOW)
    markers.add([Marker(NOW - 3, "own", "a"), Marker(NOW - 2, "other", "b"), Marker(NOW - 1, "x")])
    markers.rename_target("a", "c")
    assert [marker.target for marker in markers.known()] == ["c", "b", ""]


def test_the_history_keeps_only_the_latest_markers(tmp_path: Path) -> None:
    """One that is written twice is stored once."""
    many = [Marker(NOW + k, "same", "db") for k in range(MAX_MARKERS + 5)]
    with closing(open_to_write(tmp_path / "history.db")) as connection:
        insert_markers(connection, [*many, many[-1]])
        assert read_markers(connection) == many[5:]
        delete_markers_before(connection, round(1000 * many[-2].at))
        assert read_markers(connection) == many[-2:]


def test_markers_are_deleted_with_the_data_around_them(tmp_path: Path) -> None:
    """With the oldest intervals and fits; younger ones are kept."""
    path = tmp_path / "history.db"
    first = batch(0).intervals[0].at / 1000
    now = first + SETTINGS.retention.fits + 100.0
    store = Store(path, SETTINGS, clock=lambda: now)
    store.put(batch(0))
    old, new = Marker(first - 1e5, "old"), Marker(now - 10.0, "new")
    store.mark(old)
    store.mark(new)
    times = (float(k) for k in range(0, 100_000, 61))
    for at in times:
        store.tick(at)
        answer = store.markers()
        store.tick(at)
        if answer.result(0) == [new]:
            break
    store.close()
    with closing(open_to_read(path)) as connection:
        assert read_markers(connection) == [new]


def test_markers_survive_a_restart_of_the_agent(tmp_path: Path) -> None:
    """They are in the snapshots of the targets that they concern."""
    path = tmp_path / "history.db"
    targets = [{"name": name, "host": "127.0.0.1", "port": 1, "user": "x"} for name in "ab"]
    config = Config.validated({"targets": targets})
    agent = Agent(config, first := Store(path, config.history))
    mine, ours = Marker(round(time.time()) - 9.0, "mine", "b"), Marker(round(time.time()), "ours")
    agent.mark(mine)
    agent.mark(ours)
    agent.stop()
    first.close()
    again = Agent(config, store := Store(path, config.history))
    answer = store.markers()
    store.tick(time.monotonic())
    again.markers.add(answer.result(0))
    store.close()
    assert [each.markers for each in again.snapshots()] == [(ours,), (mine, ours)]


def test_a_marker_that_is_not_kept_is_not_written_into_the_history(tmp_path: Path) -> None:
    """It is refused, so that `compare --markers` must not list it."""
    path = tmp_path / "history.db"
    target = {"name": "db", "host": "127.0.0.1", "port": 1, "user": "x"}
    config = Config.validated({"targets": [target]})
    agent = Agent(config, store := Store(path, config.history))
    kept = Marker(round(time.time()) - 9.0, "kept")
    agent.mark(Marker(time.time() - config.history.retention.for_markers - 60.0, "too old"))
    agent.mark(kept)
    agent.stop()
    store.close()
    assert agent.markers.known() == (kept,)
    with closing(open_to_read(path)) as connection:
        assert read_markers(connection) == [kept]


def test_the_page_shows_markers_with_the_compare_command() -> None:
    """Names are escaped, and points since the latest marker have their own colour."""
    found = known(intervals(RISING))
    assert found.assessed.intervals is not None
    middle = float(found.assessed.intervals.at[len(found.assessed.intervals) // 2])
    blue = f'<circle [^>]*fill="{BLUE_60}"'
    assert not re.search(blue, render([found], found.at))
    marked = replace(found, markers=(Marker(middle, "a <b> 'c'", "db"),))
    page = render([marked], found.at, history="/var/lib/it's/history.db")
    assert len(re.findall(blue, page)) == pytest.approx(len(RISING) / 2, abs=3)
    assert "<li>a &lt;b&gt; " in page
    assert "<p>Deploy markers (points since a &lt;b&gt; &#x27;c&#x27; are blue):</p>" in page
    words = f"&#x27; --target db --around {middle:.3f}</code>"
    assert (
        f"mysql-headroom compare &#x27;/var/lib/it&#x27;&quot;&#x27;&quot;&#x27;s/history.db{words}"
        in page
    )
    assert "nothing can be compared" in render([marked], found.at)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A history of a real run, with markers in its middle and near its end."""
    rows = real_intervals()
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, rows))
    middle, last = rows[len(rows) // 2].end, rows[-1].end
    names = [Marker(rows[3].end, "4.2"), Marker(middle, "4.2"), Marker(last - 1, "4.2", "other")]
    with closing(open_to_write(path)) as connection:
        insert_markers(connection, names)
    return path


def test_compare_uses_the_latest_marker_of_a_name(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `--around` with its time; one of another target does not count."""
    rows = real_intervals()
    middle, half = rows[len(rows) // 2].end, (rows[-1].end - rows[0].end) / 2
    words = ["compare", str(recorded), "--target", "db", "--length", f"{half:.0f}", "--format"]
    assert main([*words, "json", "--around-marker", "4.2"]) == 0
    by_name = json.loads(capsys.readouterr().out)
    assert by_name["before"]["end"] == by_name["after"]["start"] == middle
    assert main([*words, "json", "--around", str(middle)]) == 0
    assert json.loads(capsys.readouterr().out) == by_name


def test_the_command_shown_on_the_page_works(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pasted into a shell, it compares around that very marker."""
    rows = real_intervals()
    middle = rows[len(rows) // 2].end
    found = replace(known(intervals(RISING)), target="db", markers=(Marker(middle, "4.2"),))
    page = render([found], found.at, history=str(recorded))
    [command] = re.findall(r"in a shell: <code>mysql-headroom (.*?)</code>", page)
    assert main(shlex.split(html.unescape(command))) == 0
    assert "capacity, queries/s" in capsys.readouterr().out


def test_list_markers_shows_all_newest_first(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message names ten, and says how to see the others."""
    start = real_intervals()[0].end
    with closing(open_to_write(recorded)) as connection:
        insert_markers(connection, [Marker(start + k, f"release {k}", "db") for k in range(30)])
    words = ["compare", str(recorded), "--markers"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 33
    assert lines == sorted(lines, reverse=True, key=lambda line: line[:20])
    assert lines[0].split()[1:] == ["other", "4.2"]
    assert main([*words, "--target", "db", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["markers"]
    assert len(listed) == 32
    assert [one["at"] for one in listed] == sorted((m["at"] for m in listed), reverse=True)
    said = one_line(capsys, main(["compare", str(recorded), "--around-marker", "5.0"]))
    assert "the latest are 4.2, release 29, " in said
    assert "release 21, and 21 more that --markers lists" in said
    assert "give no periods with it" in one_line(capsys, main([*words, "--around", "6h"]))


def test_a_list_without_markers_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error: the list itself is empty."""
    path = history(tmp_path / "state" / "history.db", ("db", SERVER, real_intervals()))
    assert main(["compare", str(path), "--markers"]) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert "no deploy markers; `mysql-headroom mark` sets one" in found.err


@pytest.mark.parametrize("style", ["csv", "openmetrics"])
def test_markers_are_exported_and_imported(
    recorded: Path, tmp_path: Path, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With every character of their names, for all targets or for one; twice adds none."""
    odd = Marker(1_700_000_000.123, 'a "b", =1+1 \\ größer')
    with closing(open_to_write(recorded)) as connection:
        insert_markers(connection, [odd])
        before = read_markers(connection)
    text, other = str(tmp_path / "markers.txt"), tmp_path / "other" / "history.db"
    kind = ["--kind", "markers", "--format", style]
    assert main(["history", "export", "--file", str(recorded), *kind, "-o", text]) == 0
    assert main(["history", "import", "--file", str(other), text]) == 0
    assert capsys.readouterr().out == "markers: 4 added, 0 existed already\n"
    with closing(open_to_read(other)) as connection:
        assert read_markers(connection) == before
    assert main(["history", "import", "--file", str(other), text]) == 0
    assert capsys.readouterr().out == "markers: 0 added, 4 existed already\n"
    assert main(["history", "export", "--file", str(recorded), *kind, "--target", "db"]) == 0
    assert 'target="other"' not in (shown := capsys.readouterr().out)
    assert "other," not in shown
    every = ["--kind", "all", "--format", "openmetrics"]
    assert main(["history", "export", "--file", str(recorded), *every]) == 0
    assert "mysql_headroom_history_marker_set" in capsys.readouterr().out


def test_an_invalid_marker_is_not_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for each, with its place, and nothing is written."""
    (text := tmp_path / "markers.csv").write_text(
        f"target,name,time,set\n,{'a' * 101},1700000000,1\nno target!,b,1700000000,1\n,,5,1\n"
    )
    path = tmp_path / "new" / "history.db"
    assert main(["history", "import", "--file", str(path), str(text)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("markers.csv:")[2][:2] for line in said] == ["2:", "3:", "4:"]
    assert not path.exists()


def test_an_unknown_marker_is_one_line(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names those that exist; a history without markers says so."""
    words = ("compare", str(recorded), "--around-marker")
    said = one_line(capsys, main([*words, "5.0"]))
    assert "no marker '5.0'; the latest are 4.2" in said
    assert "alone" in one_line(capsys, main([*words, "4.2", "--around", "6h"]))
    (table := tmp_path / "db.csv").write_text("t_s,questions\n")
    said = one_line(capsys, main(["compare", str(table), "--around-marker", "4.2"]))
    assert "only the history of an agent has markers" in said


def test_a_marker_with_an_invalid_time_is_reported(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file from elsewhere ends in one line, without a trace."""
    with closing(sqlite3.connect(recorded)) as connection, connection:
        connection.execute("UPDATE marker SET at = 'x' WHERE id = 1")
    assert main(["compare", str(recorded), "--around-marker", "4.2"]) == 1
    said = capsys.readouterr().err
    assert "a marker has an invalid time" in said
    assert said.count("\n") == 1
