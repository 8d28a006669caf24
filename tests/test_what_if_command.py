"""What-if questions over HTTP and on the command line: one answer, and errors of one line."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from known_classes import known_classes
from law_windows import RISING, WAVES, intervals, known, with_resources
from web_clients import NOW, ask, listening, password_hash, snapshot, written

from agent.assessment.snapshot import Snapshot
from agent.cli import main
from agent.web.http_listener import WebServer
from agent.web.reloading_config import WebConfigFile

DOCS = (Path(__file__).resolve().parent.parent / "docs" / "what-if.md").read_text()
PATH = "/api/v1/what-if"


def watched() -> Snapshot:
    """A target of four processors that are full at 4,500 queries/s, and its classes."""
    rows = with_resources(intervals([n / 3 for n in WAVES[:80]]), cpu=1 / 4600)
    rows = [
        row._replace(resources={**row.resources, "cpu:cpus": 4.0, "connections": 0.1})
        for row in rows
    ]
    state = known_classes(NOW)
    resources = tuple(replace(each, reasons=()) for each in state.resources)
    names = [replace(one.name, digest=one.name.digest * 16) for one in state.classes[:2]]
    named = [replace(one, name=name) for one, name in zip(state.classes, names, strict=False)]
    classes = (*named, *state.classes[2:])
    return replace(known(rows), classes=replace(state, classes=classes, resources=resources))


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    """An agent's pages about that target."""
    with listening(watched()) as found:
        yield found


@pytest.fixture
def url(server: WebServer) -> str:
    """Where it listens."""
    return f"http://127.0.0.1:{server.server_port}"


def asked(server: WebServer, *fields: tuple[str, str]) -> tuple[int, str]:
    """Status and text of an answer."""
    status, _, text = ask(server.server_port, f"{PATH}?{urlencode(fields)}")
    return status, text


def document(server: WebServer, *fields: tuple[str, str]) -> dict[str, Any]:
    """An answer that must be one."""
    status, text = asked(server, *fields)
    assert status == 200, text
    return dict(json.loads(text))


def test_without_a_change_it_is_the_snapshots_capacity(server: WebServer) -> None:
    """The same numbers, to the last digit."""
    found = document(server, ("target", "db"))
    capacity = watched().assessed.capacity
    assert capacity is not None
    assert found["then"] == found["today"]
    assert found["then"]["capacity"] == {
        "value": capacity.value,
        "lower": capacity.lower,
        "upper": capacity.upper,
    }
    assert found["then"]["limit"] == capacity.limit == "cpu"
    assert found["changes"] == []
    place = watched().operating_point(NOW)
    assert place is not None
    assert found["load"]["residence_time"] == place[0] / place[1]
    assert found["doubts"] == [] if capacity.trust == "trusted" else found["doubts"]


def test_cores_and_digest_prefixes_are_understood(
    server: WebServer,
) -> None:
    """Eight are twice four; a class with 6 of 10.25 of the CPU frees half; a schema is ignored."""
    found = document(server, ("cores", "8"), ("query", "a1a1=0.5x"))
    assert [(one["change"], one["factor"]) for one in found["changes"]] == [
        ("cores", 2.0),
        ("a1" * 16, 0.5),
    ]
    cores, query = found["changes"]
    assert 0 <= cores["gain"]["lower"] <= cores["gain"]["value"] <= 1
    assert query["gain"]["value"] == pytest.approx(1 / (1 - 3 / 10.25) - 1, rel=0.05)
    assert document(server, ("cores", "2x"))["changes"][0] == cores
    assert any("none of them faster" in text for text in found["assumptions"])
    as_shown = document(server, ("cores", "8"), ("query", "my.shop.a1a1=0.5x"))
    assert as_shown["changes"] == found["changes"]


def test_every_key_is_documented(server: WebServer) -> None:
    """Each key of the answer is in the docs."""
    found = document(server, ("cores", "8"))
    for key in {*found, *found["then"], *found["changes"][0], *found["load"]}:
        assert re.search(rf"`{key}(\[\])?`", DOCS), key


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ([("target", "other")], 404, "404 no such target"),
        ([("target", "db"), ("target", "db")], 400, "400 target: give the name of one target"),
        ([("cpu", "2")], 400, "400 'cpu': unknown change; known are cpu_speed, cores, disk_rate"),
        ([("cores", "two")], 400, "400 cores: 'two' is not a factor; write 8 or 2x"),
        ([("load", "0")], 400, "400 load: '0' is out of range; give 0.001 to 1000"),
        ([("load", "1"), ("load", "2")], 400, "400 load: given 2 times; give it once"),
        ([("query", "a1a1")], 400, "400 query: 'a1a1' is not a class; write DIGEST=0.5x"),
        ([("query", "a1a=2x")], 400, "400 query: 'a1a=2x' is not a class; write DIGEST=0.5x, with"),
        ([("query", "a1a2=2x")], 400, "400 query a1a2: no such digest; similar are "),
        ([("query", "\x1b[2J=2x")], 400, "400 query: '\\x1b[2J=2x' is not a class"),
        ([("load", "1")] * 50, 400, "400 the query string has more than 40 fields"),
        ([("query", "a1a1=2x"), ("query", "a1a1a1=2x")], 400, f"400 query {'a1' * 16}: given"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(
    server: WebServer, fields: list[tuple[str, str]], status: int, text: str
) -> None:
    """With the place and the remedy."""
    found, body = asked(server, *fields)
    assert found == status
    assert body.startswith(text)
    assert body.count("\n") == 1


def test_an_unknown_prediction_has_a_reason_and_no_number(server: WebServer) -> None:
    """Without a disk, of a faster one; without any data, of everything."""
    found = document(server, ("disk_rate", "2x"))
    assert found["then"]["capacity"] is None
    assert "cannot be predicted" in found["then"]["unknown"][0]
    with listening(snapshot(True)) as new:
        found = document(new, ("load", "2x"))
        assert found["then"]["capacity"] is found["then"]["residence_time"] is None
        assert found["doubts"] == ["no load yet"]
        assert asked(new, ("cores", "8"))[1].startswith("400 cores: how many processors")


def test_of_several_targets_the_names_are_listed() -> None:
    """Of many the first ones."""
    question = "400 target: give the name of one target; known are "
    with listening(snapshot(True), watched()) as two:
        assert asked(two) == (400, f"{question}db, db<1>\n")
    many = [replace(snapshot(True), target=f"db{k:02}") for k in range(12)]
    with listening(*many) as fleet, listening(*many[:10]) as ten:
        first = ", ".join(f"db{k:02}" for k in range(10))
        assert asked(fleet) == (400, f"{question}{first} and 2 more\n")
        assert asked(ten) == (400, f"{question}{first}\n")


def test_a_login_is_required_as_for_the_pages(tmp_path: Path) -> None:
    """The question passes the same access control as the page."""
    web = WebConfigFile(written(tmp_path, basic_auth_users={"me": password_hash("secret")}))
    with listening(watched(), settings=web) as closed:
        assert asked(closed, ("load", "2x"))[0] == 401


def test_the_command_prints_a_table(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Today, each change alone, all together, and the assumptions."""
    assert (
        main(["what-if", "--agent", url, "--target", "db", "--cores", "8", "--load", "1.1x"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("db at ")
    assert [line.split("  ")[0] for line in lines[3:7]] == [
        "today",
        "cores 8 (2x)",
        "load 1.1x",
        "all changes",
    ]
    assert lines[8] == "Assumed:"
    assert lines[9].startswith("- Contention (σ), coherency (κ) and the time that no resource")
    assert lines[lines.index("", 9) + 1] == "Today's capacity is not trusted:"
    assert all(len(line) <= 100 for line in lines[9:])
    assert {line[:2] for line in lines[9:] if line} == {"- ", "  ", "To"}


def test_the_command_names_the_unknown_change(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A load above the capacity, and not the cores beside it; alone it is all changes."""
    for also in (["--cores", "16"], []):
        assert main(["what-if", "--agent", url, *also, "--load", "1.3x"]) == 0
        lines = capsys.readouterr().out.splitlines()
        at = lines.index("Not known:")
        assert lines[at + 1].startswith("- load 1.3x: The load would be above the capacity")


def test_the_command_prints_the_agents_json(
    url: str, server: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same document as over HTTP."""
    assert main(["what-if", "--agent", url, "--cpu-speed", "2.5x", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == document(server, ("cpu_speed", "2.5x"))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--cpu-speed", "fast"], 2, "--cpu-speed: 'fast' is not a factor; write 2x or 0.5x"),
        (["--query", "ffff=0.5x"], 2, "query ffff: no such digest; similar are a1"),
        (["--target", "other"], 2, "--target: the agent watches no such target"),
        (["--password-file", "x"], 2, "--password-file needs --user"),
        (["--agent", "ftp://x"], 2, "'ftp://x' is not a URL; write http://HOST:10104"),
        (["--agent", "http://127.0.0.1:1"], 1, "no answer"),
    ],
)
def test_the_commands_errors_are_one_line(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    """With place and remedy, and the exit code of its cause."""
    assert main(["what-if", "--agent", url, *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_few_intervals_still_give_an_answer() -> None:
    """A server of which little is known answers what it can."""
    with listening(known(intervals(RISING[:3]))) as young:
        found = document(young, ("load", "1.5x"))
        assert found["target"] == "db"
        assert found["then"]["unknown"]


@pytest.mark.parametrize("target", [known(intervals(RISING[:3])), snapshot(False)])
def test_doubts_are_told_as_on_the_page(target: Snapshot) -> None:
    """No processor's use is known, or the server is down."""
    with listening(target) as agent:
        doubts = document(agent, ("load", "1.5x"))["doubts"]
        page = ask(agent.server_port, "/")[2]
    assert doubts
    assert [doubt for doubt in doubts if escape(doubt) not in page] == []
