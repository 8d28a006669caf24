"""The snapshot as JSON: complete, documented, and nothing that is not known is a number."""

import gc
import json
import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from law_windows import WAVES, ZERO, interval, intervals, known, seen_at, with_resources
from web_clients import ask, listening, snapshot

from agent.assessment.snapshot import AssessmentState, ForecastState, Health, Snapshot
from agent.export import page
from agent.export.snapshot_json import snapshots_as_json, snapshots_object
from agent.web import application
from agent.window.intervals import Interval
from models.forecast.time_to_saturation import ForecastReason, Saturation

DOCS = (Path(__file__).resolve().parent.parent / "docs" / "snapshot.md").read_text()


def parsed(rows: list[Interval]) -> dict[str, Any]:
    """The one target of a document about these intervals."""
    document = json.loads(snapshots_as_json([known(rows)], seen_at(rows)), parse_constant=refuse)
    [target] = document["targets"]
    return dict(target)


def refuse(text: str) -> None:
    """Infinity and NaN are no JSON."""
    raise AssertionError(text)


def with_a_pile_up() -> list[Interval]:
    """A processor that is full at 6,000 queries/s, and one interval far off."""
    rows = with_resources(intervals(WAVES), cpu=1 / 6000)
    rows[40] = rows[40]._replace(statement_time=400.0)
    return rows


def test_many_targets_are_one_document_in_little_more_memory_than_its_text() -> None:
    """In the order of their names; no more than the text twice, and the objects of one target."""
    rows = with_a_pile_up()
    now, one = seen_at(rows), known(rows)
    many = [replace(one, target=f"db{number:02}") for number in range(30)]
    expected = json.dumps(snapshots_object(many, now), allow_nan=False, ensure_ascii=False)
    gc.collect()
    tracemalloc.start()
    try:
        text = snapshots_as_json(reversed(many), now)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text == expected
    assert snapshots_as_json([], now) == json.dumps(snapshots_object([], now))
    assert peak < 3 * len(text)


def test_capacity_limits_and_outliers_are_complete() -> None:
    """Every number of the models, in base units."""
    rows = with_a_pile_up()
    found, state = parsed(rows), known(rows).assessed
    assert state.capacity is not None
    assert found["capacity"]["value"] == state.capacity.value
    assert found["capacity"]["trust"] == "trusted"
    assert sum(found["capacity"]["limits"].values()) == pytest.approx(1)
    [resource_limit] = found["resource_limits"]
    assert resource_limit["resource"] == "cpu"
    assert resource_limit["lower"] < resource_limit["value"] < resource_limit["upper"]
    [outlier] = found["outliers"]
    assert (outlier["reason"], outlier["at"]) == ("pile_up", ZERO + rows[40].end)
    assert found["outliers_total"] == {"counter_glitch": 0, "foreign_work": 0, "pile_up": 1}
    assert [point["fate"] for point in found["points"]].count("outlier") == 1
    assert found["points"][0]["throughput"] == pytest.approx(rows[0].throughput)
    assert found["load"]["throughput"] == pytest.approx(rows[-1].throughput)
    assert found["usl"]["max_throughput"]["value"] > 0
    assert found["usl_refused"] is None


def test_unknown_values_are_null() -> None:
    """No statement time, no law, no limit: nulls, and the reason in words."""
    rows = [interval(k, 2.0)._replace(statement_time=np.nan) for k in range(30)]
    rows = [row._replace(threads_running=np.nan) for row in rows]
    found = parsed(rows)
    assert found["points"][0]["concurrency"] is None
    assert found["capacity"]["value"] is None
    assert found["capacity"]["lower"] > 0
    assert found["usl"] is None
    assert found["usl_refused"]["reason"] == "few_points"
    assert found["workload"] == {"change": None, "changed_at": None, "two": None}


def test_a_target_without_results_has_a_document_too() -> None:
    """One that was never tried."""
    new = Snapshot("new", ZERO, 60.0, Health(), None, AssessmentState(waiting="nothing yet"))
    [found] = json.loads(snapshots_as_json([new], ZERO))["targets"]
    assert (found["up"], found["capacity"], found["load"]) == (None, None, None)
    assert (found["points"], found["resource_limits"], found["waiting"]) == ([], [], "nothing yet")


def test_a_stale_assessment_is_withheld() -> None:
    """Its time stays, its numbers do not."""
    rows = with_a_pile_up()
    text = snapshots_as_json([known(rows)], seen_at(rows) + 1000)
    [found] = json.loads(text)["targets"]
    assert found["assessed_at"] == ZERO + rows[-1].end
    assert (found["capacity"], found["usl"], found["points"]) == (None, None, [])
    assert (found["resource_limits"], found["outliers"]) == ([], [])


def keys(value: Any) -> Iterator[str]:
    """Every key of every object, but for those that are names of resources, sources and reasons."""
    by_name = {"concurrency", "excluded_threads", "utilisation", "limits", "outliers_total"}
    by_name |= {"probability_within", "saturation_probability"}
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            if key not in by_name:
                yield from keys(part)
    elif isinstance(value, list):
        for part in value[:1]:
            yield from keys(part)


def test_every_key_is_documented() -> None:
    """Each key that a document can have is in docs/snapshot.md."""
    rows = with_a_pile_up()
    late = Saturation(probability=((7, 0.5),), reason=ForecastReason.TOO_FAR)
    whole = replace(known(rows), forecast=ForecastState(seen_at(rows), late))
    document = json.loads(snapshots_as_json([whole], seen_at(rows)))
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", DOCS))))
    found = set(keys(document["targets"][0]))
    assert "probability_within" in found
    assert found - named == set()


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/snapshot", "/api/v1/snapshot?target=db%3C1%3E", "/api/v1/groups"),
        "/?target=db%3C1%3E",
    ],
)
def test_one_document_is_computed_at_a_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of requests leaves the interpreter to scrapes and samples."""
    at_once, most = 0, 0
    lock = threading.Lock()

    def slow(*_: object, **__: object) -> str:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return "{}"

    monkeypatch.setattr(application, "snapshots_as_json", slow)
    monkeypatch.setattr(application, "groups_as_json", slow)
    monkeypatch.setattr(page, "render_target", slow)
    with listening(snapshot(True)) as server, ThreadPoolExecutor(20) as clients:
        answers = list(clients.map(lambda _: ask(server.server_port, path), range(40)))
    assert [answer[::2] for answer in answers] == [(200, "{}")] * 40
    assert most == 1


def test_it_is_served_for_all_or_for_named_targets() -> None:
    """An unknown name, of a target or a field, is reported."""
    there = [snapshot(True), known(with_a_pile_up())]
    with listening(*there) as server:
        path = "/api/v1/snapshot"
        status, headers, body = ask(server.server_port, path)
        one = ask(server.server_port, f"{path}?target={quote('db<1>')}")[2]
        missing = ask(server.server_port, f"{path}?target=db&target=nobody")
        empty = ask(server.server_port, f"{path}?target=")
        misspelt = ask(server.server_port, f"{path}?targt=db")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert [target["target"] for target in json.loads(body)["targets"]] == ["db", "db<1>"]
    assert [target["target"] for target in json.loads(one)["targets"]] == ["db<1>"]
    for status, _, text in (missing, empty):
        assert (status, text) == (404, "404 no such target\n")
    assert misspelt[::2] == (400, "400 targt: unknown field; allowed is target\n")
