"""What changed at a deploy marker, one click from the page: the answer of `compare` over HTTP."""

import html
import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import pytest
import yaml
from law_windows import RISING, intervals, known
from test_replay_history import SERVER, ZERO, history, real_intervals
from web_clients import ask, listening

from agent.assessment.deploy_markers import Marker
from agent.cli import main
from agent.compare.comparison import Comparison
from agent.config.loader import load_config
from agent.export.page import render
from agent.history.failures import StoreError, StoreFailure
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import CLASSES, Row
from agent.history.store import Store
from agent.service import daemon
from agent.web import shared_responses
from agent.web.compare_paths import COMPARE, COMPARE_PAGE
from agent.web.http_listener import WebServer

DOCS = (Path(__file__).resolve().parent.parent / "docs" / "compare.md").read_text()
TARGET = "db.1"
MIDDLE = real_intervals()[len(real_intervals()) // 2].end
Json = dict[str, Any]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A history of a real run, and of a class of which each call took twice as long later."""
    rows = real_intervals()
    path = history(tmp_path / "state" / "history.db", (TARGET, SERVER, rows))
    names, uses = [column.name for column in CLASSES.columns], []
    for k, row in enumerate(rows):
        calls, seconds = 50.0 + 7 * (k % 5), 0.008 if row.end > MIDDLE else 0.004
        noise = 1 + 0.02 * (k * 7 % 5 - 2)
        cells = {"seconds": row.seconds, "calls": calls, "statement_time": calls * seconds * noise}
        labels = (TARGET, SERVER, "<b>aa|=shop")
        uses.append(Row(labels, round(1000 * row.end), tuple(map(cells.get, names))))
    with closing(open_to_write(path)) as connection:
        insert_rows(connection, CLASSES, uses)
    return path


@pytest.fixture
def config(tmp_path: Path, recorded: Path) -> Path:
    """A configuration of the agent that wrote it."""
    targets = [{"name": TARGET, "host": "127.0.0.1", "port": 1, "user": "x"}]
    targets += [{**targets[0], "name": "new", "port": 2}]
    written = {"targets": targets, "history": {"path": str(recorded)}, "fit": {"interval": "4s"}}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(written))
    return file


@pytest.fixture
def server(config: Path, recorded: Path) -> Iterator[WebServer]:
    """Its pages, with markers; it watches nothing yet."""
    loaded = load_config(config)
    agent = daemon.Agent(loaded, Store(recorded, loaded.history))
    agent.markers.kept_seconds = 1e12
    agent.markers.add([Marker(MIDDLE, "4.2")])
    snapshots = agent.snapshots()
    with listening(*snapshots, compare=agent.compare_around) as found:
        yield found


def asked(server: WebServer, path: str, **fields: object) -> tuple[int, str]:
    """Status and text of an answer."""
    status, _, text = ask(server.server_port, f"{path}?{urlencode(fields)}")
    return status, text


class Shown(HTMLParser):
    """The rows of a page's table, as texts, and its links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.in_cell = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row or a cell, or note a link."""
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True
        elif tag == "a":
            self.links.append(dict(attrs)["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        self.in_cell &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        """Text of the latest cell."""
        if self.in_cell:
            self.rows[-1][-1] += data


def from_root(shown: Shown) -> list[str]:
    """The links' paths, where the page is directly below the root."""
    return [urljoin("/page", link) for link in shown.links]


def test_the_response_equals_the_commands_output(
    server: WebServer, recorded: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same document, to the last digit, with the documented keys."""
    status, text = asked(server, COMPARE, target=TARGET, around=MIDDLE, length=120)
    assert status == 200, text
    words = ["--config.file", str(config), "--target", TARGET, "--around", f"{MIDDLE}"]
    said = ["compare", str(recorded), *words, "--length", "120s", "--format", "json"]
    assert main(said) == 0
    found: Json = json.loads(text)
    assert found == json.loads(capsys.readouterr().out)
    quantities = {one["name"]: one for one in found["quantities"]}
    assert quantities["statement_time:<b>aa|=shop"]["verdict"] == "higher"
    for key in {*found, *found["before"], *found["quantities"][0]}:
        assert re.search(rf"`{key}(\[\])?`", DOCS), key


def test_a_marker_on_the_page_links_to_the_comparison(server: WebServer, recorded: Path) -> None:
    """Both sides, changes marked, and a link to the same as JSON."""
    marked = replace(known(intervals(RISING)), target=TARGET, markers=(Marker(MIDDLE, "4.2"),))
    links = from_root(Shown(render([marked], marked.at, history=str(recorded))))
    [link] = [path for path in links if path.startswith(COMPARE_PAGE)]
    assert ask(server.server_port, link)[0] == 200
    status, headers, page = ask(server.server_port, f"{link}&length=120")
    assert status == 200, page
    assert headers["Content-Type"].startswith("text/html")
    assert html.escape(TARGET) in page
    assert "<b>" not in page
    shown = Shown(page)
    assert shown.rows[0][:3] == ["estimate", "verdict", "before"]
    assert page.count('<th scope="col">') == len(shown.rows[0])
    rows = {row[0]: row for row in shown.rows}
    dearer = rows["shop.<b>aa, time of a call"]
    assert (dearer[1], dearer[2][:2]) == ("HIGHER", "4.")
    assert rows["capacity, queries/s"][-1] != ""
    all_targets, as_json = from_root(shown)
    assert all_targets == "/"
    found = json.loads(ask(server.server_port, as_json)[2])
    assert found["before"]["end"] == found["after"]["start"] == pytest.approx(MIDDLE, abs=0.001)


def test_links_stay_in_the_folder_of_a_proxy(server: WebServer, recorded: Path) -> None:
    """A proxy may serve the pages below a path of its own, such as /headroom/."""
    marked = replace(known(intervals(RISING)), target=TARGET, markers=(Marker(MIDDLE, "4.2"),))
    pages = {
        "": render([marked], marked.at, history=str(recorded)),
        "compare": asked(server, COMPARE_PAGE, target=TARGET, around=MIDDLE, length=120)[1],
        "compare?": asked(server, COMPARE_PAGE)[1],
    }
    for path, page in pages.items():
        links = Shown(page).links
        assert links
        for link in links:
            assert urljoin(f"/headroom/{path}", link).startswith("/headroom/")


def test_what_was_not_used_is_noted(server: WebServer, recorded: Path) -> None:
    """Intervals of another width, of which the history has a few, on the page and in the JSON."""
    before = real_intervals()[len(real_intervals()) // 2 - 2]
    short = before._replace(end=before.end - 1.0, seconds=before.seconds / 2)
    history(recorded, (TARGET, SERVER, [short]))
    fields = {"target": TARGET, "around": MIDDLE, "length": 120}
    [note] = json.loads(asked(server, COMPARE, **fields)[1])["notes"]
    assert note.startswith(f"{recorded}: ")
    assert html.escape(note) in asked(server, COMPARE_PAGE, **fields)[1]


def test_it_reads_at_most_5760_intervals(server: WebServer) -> None:
    """Whatever length is requested: of 4 s each, 6.4 hours."""
    found = json.loads(asked(server, COMPARE, target=TARGET, around=MIDDLE)[1])
    assert found["before"]["end"] - found["before"]["start"] == pytest.approx(5760 * 4.0)


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"target": TARGET}, 400, "around: must be Unix seconds"),
        ({"target": TARGET, "around": "soon"}, 400, "around: must be Unix seconds"),
        ({"target": TARGET, "around": "inf"}, 400, "around: must be Unix seconds"),
        ({"target": TARGET, "around": "-1e300"}, 400, "around: must be Unix seconds"),
        ({"target": TARGET, "around": "9e9"}, 400, "around: that time is in the future"),
        ({"target": TARGET, "around": MIDDLE, "length": 5}, 400, "length: give 60 to 86400 s"),
        ({"target": TARGET, "around": MIDDLE, "length": 1e9}, 400, "length: give 60 to 86400 s"),
        (
            {"target": TARGET, "around": MIDDLE, "a": 1},
            400,
            "a: unknown field; allowed are target, aro",
        ),
        ({"around": MIDDLE}, 404, "no such target"),
        ({"target": "<x>", "around": MIDDLE}, 404, "no such target"),
        ({"target": "new", "around": MIDDLE}, 404, "no target 'new'"),
        ({"target": TARGET, "around": ZERO - 9e6}, 404, "no intervals of "),
        ({"target": TARGET, "around": ZERO}, 404, "6 are needed"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(
    server: WebServer, fields: dict[str, object], status: int, text: str
) -> None:
    """With the valid form; on the page too."""
    found, said = asked(server, COMPARE, **fields)
    assert (found, said[:4]) == (status, f"{status} ")
    assert text in said
    assert said.count("\n") == 1
    found, page = asked(server, COMPARE_PAGE, **fields)
    assert found == status
    assert "Not compared: " in page
    assert text in html.unescape(page)
    assert "<x>" not in page


def test_a_missing_or_corrupt_history_is_reported(recorded: Path) -> None:
    """The request only reads."""
    path = f"{COMPARE}?target={quote(TARGET)}&around={MIDDLE}"
    watched = replace(known(intervals(RISING)), target=TARGET)
    with listening(watched) as found:
        status, _, text = ask(found.server_port, path)
        assert (status, text[:21]) == (404, "404 without a history")
        assert ask(found.server_port, path, "POST")[0] == 405

    def broken(*question: object) -> Comparison:
        del question
        raise StoreError(StoreFailure.CORRUPT, f"{recorded}: damaged")

    with listening(watched, compare=broken) as found:
        status, _, text = ask(found.server_port, path)
        assert (status, text) == (503, f"503 {recorded}: damaged\n")


def test_one_request_is_computed_at_a_time(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one waits, then gets 429; likewise for what-if."""
    monkeypatch.setattr(shared_responses, "MAX_WAIT_SECONDS", 0.05)
    begun, go_on = threading.Event(), threading.Event()

    def slow(*question: object) -> Comparison:
        del question
        begun.set()
        go_on.wait(20)
        raise StoreError(StoreFailure.IO, "over")

    watched = replace(known(intervals(RISING)), target=TARGET)
    path = f"{COMPARE}?target={quote(TARGET)}&around={MIDDLE}"
    with listening(watched, compare=slow) as found:
        first = threading.Thread(target=ask, args=(found.server_port, path))
        first.start()
        assert begun.wait(20)
        status, headers, text = ask(found.server_port, path)
        assert (status, headers["Retry-After"]) == (429, "1")
        assert text == "429 other requests are being answered, try again\n"
        assert ask(found.server_port, f"/api/v1/what-if?target={quote(TARGET)}")[0] == 429
        go_on.set()
        first.join()
        assert ask(found.server_port, path)[0] == 503
