"""The alerts of two agents that only a label of the scrape tells apart, such as their cluster."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_rules import RULES, alerts, parsed, without_other_alerts

UNIT_TESTS = ("mysql-headroom.rules.test.yml", "mysql-headroom.slow-rules.test.yml")
TEXT = RULES.read_text()
ALERTS = {rule["alert"]: rule for rule in alerts(TEXT)}
AGENT = re.compile(r'(job="mysql-headroom")')
PART = re.compile(r"(\d+)([mh])")
AGE = re.compile(r"\btime(stamp)?\(")
BY_SOME_LABELS = re.compile(r"\b(on|by) \([^)]")


@pytest.mark.parametrize("name", [n for n, r in ALERTS.items() if "absent(" not in r["expr"]])
def test_an_alert_belongs_to_its_cluster(name: str, tmp_path: Path, promtool: str) -> None:
    """Each unit test holds in two clusters at once, of which one lags half its time behind."""
    cases, every = unit_tests_of(name)
    document = {
        "rule_files": [RULES.name],
        "evaluation_interval": f"{every}m",
        "tests": [in_two_clusters(case, every) for case in cases],
    }
    (tmp_path / RULES.name).write_text(without_other_alerts(TEXT, [name]))
    file = tmp_path / "clusters.test.yml"
    file.write_text(json.dumps(document))
    command = [promtool, "test", "rules", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def unit_tests_of(name: str) -> tuple[list[dict[str, Any]], int]:
    """The unit tests of an alert, which are in one file, and the minutes between evaluations."""
    for file in UNIT_TESTS:
        document = parsed(RULES.with_name(file).read_text())
        cases = [
            case | {"alert_rule_test": looks}
            for case in document["tests"]
            if 'job="mysql-headroom", cluster="' not in str(case)
            and (looks := [o for o in case.get("alert_rule_test", ()) if o["alertname"] == name])
        ]
        if cases:
            return cases, in_minutes(document["evaluation_interval"])
    raise AssertionError(name)


def in_two_clusters(case: dict[str, Any], every: int) -> dict[str, Any]:
    """A unit test with two of each series; `every`: minutes from one evaluation to the next.

    Alerts are looked at when they are evaluated. Ages are those of the cluster that is not late.
    """
    looks, step = case["alert_rule_test"], in_minutes(case["interval"])
    last = in_minutes(looks[-1]["eval_time"])
    late = last // 2 // (step * every) * step * every
    series = [
        {
            "series": AGENT.sub(rf'\1, cluster="{cluster}"', one["series"]),
            "values": before + one["values"],
        }
        for cluster, before in (("a", ""), ("b", f"_x{late // step} "))
        for one in case["input_series"]
        if AGENT.search(one["series"]) or cluster == "a"
    ]
    tests = [
        expected(look, cluster, in_minutes(look["eval_time"]) // every * every + delay)
        for cluster, delay in (("a", 0), ("b", late))
        for look in looks
        if cluster == "a" or not AGE.search(ALERTS[look["alertname"]]["expr"])
    ]
    return {"interval": case["interval"], "input_series": series, "promql_expr_test": tests}


def expected(look: dict[str, Any], cluster: str, at: int) -> dict[str, Any]:
    """One test case: the alert that must fire in a cluster at this minute."""
    ours = f'alertname="{look["alertname"]}", alertstate="firing", cluster="{cluster}"'
    return {
        "expr": f"ALERTS{{{ours}}}",
        "eval_time": f"{at}m",
        "exp_samples": [
            {"labels": f"ALERTS{{{ours}, {labels_text(one['exp_labels'])}}}", "value": 1}
            for one in look["exp_alerts"]
        ],
    }


def labels_text(labels: dict[str, str]) -> str:
    """Labels as PromQL writes them."""
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())


def in_minutes(duration: str) -> int:
    """A duration such as 5m or 3h20m, in minutes."""
    return sum(int(count) * {"m": 1, "h": 60}[unit] for count, unit in PART.findall(duration))


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_no_alert_names_scrape_labels(name: str) -> None:
    """It matches and queries by all labels; those that it does not compare are ignored."""
    rule = ALERTS[name]
    assert not BY_SOME_LABELS.search(rule["expr"])
    for query in re.findall(r"\{\{[^}]*\| query \}\}", rule["annotations"]["description"]):
        assert "$labels" not in query
