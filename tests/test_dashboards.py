"""The Grafana dashboards: their schema, their layout, and what a real Prometheus answers them."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families
from prometheus_rules import RULES, parsed
from prometheus_server import Sample, fill, serving

from agent.export.metrics_text import encode_metrics
from agent.replay.alert_rules import (
    CLOSE_LOAD,
    CLOSE_PROBABILITY,
    PAGE_PROBABILITY,
    WARNING_PROBABILITY,
)

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "deploy/grafana").glob("*.json"))
GOLDEN = ROOT / "tests/golden/metrics.txt"
START, STEP, STEPS = 1_700_001_100.0, 15.0, 40  # the golden page's time; ten minutes of scrapes
AGENT = "agent:10104"
SERVERS = ("mysql", "full")
"""Of the golden page: what the first one lacks, the other one has."""
WIDTH = 24
TIME = "Time"
"""Grafana's own column."""
OF_PROMETHEUS_ALONE = {"titleFormat", "step", "useValueForTime"}
"""Keys of an annotation that only the data source knows, not the schema."""


def panels_of(board: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels but the headings of rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


@cache
def board_of(path: Path) -> dict[str, Any]:
    """The dashboard in a file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def substituted(expression: str, server: str = SERVERS[0]) -> str:
    """The expression with the values of the dashboard's variables."""
    found = expression.replace("$instance", AGENT).replace("$target", server)
    assert "$" not in found.replace('"$1"', "")
    return found


every_dashboard = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def test_there_is_a_dashboard_of_one_server_and_one_of_all() -> None:
    """One of a server, one of all."""
    assert [path.name for path in FILES] == [
        "mysql-headroom.dashboard.json",
        "mysql-headroom.fleet.dashboard.json",
    ]


@every_dashboard
def test_grafanas_schema_knows_every_key(path: Path) -> None:
    """What Grafana's own library reads and writes again is complete."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    board = board_of(path)
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert set(lost_keys(board, again)) <= OF_PROMETHEUS_ALONE


def lost_keys(before: Any, after: Any) -> Iterator[str]:
    """Yield the keys that the second value lacks, or has with another value."""
    if isinstance(before, dict):
        for key, value in before.items():
            if key not in after:
                yield key
            else:
                yield from (key if lost == "" else lost for lost in lost_keys(value, after[key]))
    elif isinstance(before, list):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            yield from lost_keys(one, other)
    elif before != after:
        yield ""


@every_dashboard
def test_panels_do_not_overlap(path: Path) -> None:
    """They lie within the grid's width, each with an id of its own."""
    board = board_of(path)
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= WIDTH, panel["title"]
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


@every_dashboard
def test_every_panel_says_what_it_shows(path: Path) -> None:
    """By a title and a sentence."""
    for panel in panels_of(board_of(path)):
        assert panel["title"], panel["id"]
        assert panel["description"].endswith("."), panel["title"]


@every_dashboard
def test_columns_and_overrides_are_of_queries_that_exist(path: Path) -> None:
    """A table names every value and only labels that it groups by; an override has its series."""
    for panel in panels_of(board_of(path)):
        columns, shown = columns_of(panel), set[str]()
        if columns:
            values = {column for column in columns if column.startswith("Value #")}
            assert values == {f"Value #{query['refId']}" for query in panel["targets"]}
            assert columns - values - {TIME} == labels_in(panel), panel["title"]
            shown = set(organizer_of(panel)["renameByName"].values())
        legends = {query.get("legendFormat") for query in panel["targets"]}
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in legends | shown | trusts(panel)


def columns_of(panel: dict[str, Any]) -> set[str]:
    """The columns that a table orders, renames or leaves out."""
    return {name for choice in organizer_of(panel).values() for name in choice}


def organizer_of(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of a table's last transformation; none of other panels."""
    steps = panel.get("transformations", ())
    found: dict[str, dict[str, Any]] = steps[-1]["options"] if steps else {}
    return found


def labels_in(panel: dict[str, Any]) -> set[str]:
    """The labels by which a table's queries group."""
    groups = re.findall(r"by \(([^)]*)\)", " ".join(q["expr"] for q in panel["targets"]))
    return {label.strip() for group in groups for label in group.split(",")}


def trusts(panel: dict[str, Any]) -> set[str]:
    """The values of the label `trust`, which are the names where it is the legend."""
    if not any(query.get("legendFormat") == "{{trust}}" for query in panel["targets"]):
        return set()
    return set(re.findall(r'trust="(\w+)"', GOLDEN.read_text()))


def test_thresholds_are_those_of_the_alerts() -> None:
    """The probabilities at which the warning and the page begin."""
    panels = {panel["title"]: panel for panel in panels_of(board_of(FILES[0]))}
    rules = {
        rule["record"]: float(rule["expr"].removeprefix("vector(").removesuffix(")"))
        for group in parsed(RULES.read_text())["groups"]
        for rule in group["rules"]
        if rule.get("expr", "").startswith("vector(")
    }
    page = limits_of(panels["Saturated within an hour"])
    assert page == [
        rules["mysql_headroom:warning_probability"],
        rules["mysql_headroom:page_probability"],
    ]
    assert page == [WARNING_PROBABILITY, PAGE_PROBABILITY]
    text = panels["Saturated within an hour"]["description"].replace(" %", "%")
    assert f"at {PAGE_PROBABILITY:.0%}" in text
    assert f"at {WARNING_PROBABILITY:.0%}" in text
    assert f"below {WARNING_PROBABILITY:.0%}" in text
    close = panels["Saturated by a quarter more"]
    assert f'load="{CLOSE_LOAD}"' in close["targets"][0]["expr"]
    assert limits_of(close) == [CLOSE_PROBABILITY]
    assert f"needs {CLOSE_PROBABILITY:.0%}" in close["description"].replace(" %", "%")


def limits_of(panel: dict[str, Any]) -> list[float]:
    """The values at which the colour changes."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [step["value"] for step in steps if step["value"] is not None]


def test_links_lead_to_the_other_dashboard() -> None:
    """By its uid, and with variables that it has."""
    boards = [board_of(path) for path in FILES]
    names = {board["uid"]: {v["name"] for v in board["templating"]["list"]} for board in boards}
    text = " ".join(path.read_text() for path in FILES)
    links = re.findall(r'/d/([\w-]+)\?([^"]*)', text)
    assert {uid for uid, _ in links} == set(names)
    for uid, query in links:
        assert set(re.findall(r"var-(\w+)=", query)) <= names[uid]


@pytest.mark.live
def test_every_query_finds_something(tmp_path: Path, prometheus: str, promtool: str) -> None:
    """A Prometheus that scraped an agent for ten minutes answers all panels and variables."""
    samples = list(scraped())
    data = fill(tmp_path, promtool, samples)
    labels_of = {name: set[str]() for name, *_ in samples}
    for name, labels, *_ in samples:
        labels_of[name] |= labels.keys()
    with serving(prometheus, data) as url:
        for path in FILES:
            board = board_of(path)
            for panel in panels_of(board):
                for query in panel["targets"]:
                    assert answer_of_a_server(url, query), (panel["title"], query["expr"])
                    names = set(re.findall(r"mysql_headroom_\w+", query["expr"]))
                    known = set[str]().union(*(labels_of[name] for name in names))
                    known |= set(re.findall(r', "(\w+)", "\$1"', query["expr"]))  # label_replace
                    legend = set(re.findall(r"{{(\w+)}}", query.get("legendFormat", "")))
                    assert legend <= known, panel["title"]
            for annotation in board["annotations"]["list"]:
                answer(url, substituted(annotation["expr"]), is_range=True)
            for variable in board["templating"]["list"][1:]:
                matched = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert matched, variable
                [*series] = answer(url, substituted(matched[1]), is_range=False)
                values = {one["metric"][matched[2]] for one in series}
                assert values >= ({AGENT} if variable["name"] == "instance" else {*SERVERS})


@pytest.mark.live
def test_an_agent_that_two_jobs_scrape_counts_once(
    tmp_path: Path, prometheus: str, promtool: str
) -> None:
    """As by its pod's annotations and by the alerts' job: no query fails, and no sum is doubled."""
    once = list(scraped())
    again = [(name, {**labels, "job": "pods"}, at, value) for name, labels, at, value in once]
    found = []
    for name, samples in (("once", once), ("twice", once + again)):
        folder = tmp_path / name
        folder.mkdir()
        with serving(prometheus, fill(folder, promtool, samples)) as url:
            found.append(list(sums_and_counts(url)))
    assert found[0] == found[1]


def sums_and_counts(url: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """What is found by the queries of tables, of stacked lines, and of all servers together."""
    for path in FILES:
        board = board_of(path)
        for panel in panels_of(board):
            is_stacked = "stacking" in panel["fieldConfig"]["defaults"].get("custom", {})
            for query in panel["targets"]:
                series = answer_of_a_server(url, query)
                if columns_of(panel) or is_stacked or path != FILES[0]:
                    by_labels = sorted(series, key=lambda one: sorted(one["metric"].items()))
                    yield panel["title"], query["refId"], by_labels


def scraped() -> Iterator[Sample]:
    """The golden page and an agent's own process, scraped every 15 s for ten minutes."""
    registry = CollectorRegistry()
    ProcessCollector(namespace="mysql_headroom", registry=registry)
    page = GOLDEN.read_text() + encode_metrics(registry, open_metrics=False).decode()
    of_scrape = {"job": "mysql-headroom", "instance": AGENT}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {**sample.labels, **of_scrape}
            growth = 1.0 if sample.name.endswith("_total") else 0.0
            for step in range(STEPS):
                yield sample.name, labels, START + STEP * step, sample.value + growth * step


def answer_of_a_server(url: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """What a panel's query finds for the first server of which it finds something."""
    for server in SERVERS:
        expression = substituted(query["expr"], server)
        if found := answer(url, expression, is_range=not query.get("instant")):
            return found
    return []


def answer(url: str, expression: str, *, is_range: bool) -> list[dict[str, Any]]:
    """The series that Prometheus answers with, at the last scrape or over all; it must accept."""
    end = START + STEP * (STEPS - 1)
    asked = {"query": expression}
    asked |= (
        {"start": f"{START}", "end": f"{end}", "step": "60"} if is_range else {"time": f"{end}"}
    )
    path = "query_range" if is_range else "query"
    address = f"{url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(address, timeout=30) as found:
        series: list[dict[str, Any]] = json.load(found)["data"]["result"]
    return series
