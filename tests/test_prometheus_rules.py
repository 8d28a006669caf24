"""The alerts: promtool runs their unit tests, and their papers are in order."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_rules import (
    ROOT,
    RULES,
    alerts,
    documented_metrics,
    parsed,
    rules_with_short_intervals,
    without_other_alerts,
)

from agent.export.capacity_sentences import KINDS
from agent.replay.alert_rules import (
    PAGE_PROBABILITY,
    WARNING_PROBABILITY,
)

UNIT_TESTS = RULES.with_name("mysql-headroom.rules.test.yml")
FLEET = RULES.with_name("mysql-headroom.fleet.rules.yml")
FLEET_UNIT_TESTS = RULES.with_name("mysql-headroom.fleet.rules.test.yml")
SLOW_UNIT_TESTS = RULES.with_name("mysql-headroom.slow-rules.test.yml")
PROMETHEUS = RULES.with_name("prometheus.yml")
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()
RUNBOOK_URL = "https://github.com/mysql-headroom/mysql-headroom/blob/main/docs/runbooks.md#"

TEXT = RULES.read_text()
ALERTS = {rule["alert"]: rule for rule in alerts(TEXT)}
THRESHOLDS = {
    "PAGE": f"{PAGE_PROBABILITY:g}",
    "WARNING": f"{WARNING_PROBABILITY:g}",
}
each_alert = pytest.mark.parametrize("name", sorted(ALERTS))

FITTED = re.compile(
    r"mysql_headroom_((usl|capacity)_(?!trust)\w+|resource_(limit|service)_(?!trust)\w+|\w+_headroom_ratio)"
)
LABELS = 'target="db1", instance="agent:10104", job="mysql-headroom"'
STEPS = 7 * 24 * 6  # of ten minutes, a week
BAD: dict[str, dict[str, str]] = {
    "MysqlHeadroomPileUp": {
        'concurrency{source="a"}': f"99x{2 * STEPS}",
        'usl_concurrency_source_info{source="a"}': f"1x{2 * STEPS}",
        "usl_max_concurrency_upper": f"9x{2 * STEPS}",
        "throughput_queries_per_second": f"1x{2 * STEPS}",
        "usl_max_throughput_queries_per_second": f"9x{2 * STEPS}",
    },
    "MysqlHeadroomScalabilityWorse": {
        "capacity_queries_per_second": f"9x{STEPS} 1x{STEPS}",
        "usl_lambda_queries_per_second": f"9x{STEPS} 1x{STEPS}",
        'resource_service_demand_seconds{resource="cpu"}': f"1x{STEPS} 9x{STEPS}",
        'capacity_limit_probability{resource="cpu"}': f"1x{2 * STEPS}",
    },
}
"""For each alert on numbers out of a model, such numbers as must raise it once they are trusted."""
TRUSTS = ("capacity_trust", "usl_trust", 'resource_limit_trust{resource="cpu"}')


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run to the end, output as text; the caller judges the exit status."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def joined(expression: str) -> str:
    """An expression on one line with single spaces."""
    return " ".join(expression.split())


def pass_their_unit_tests(text: str, directory: Path, promtool: str) -> bool:
    """Whether these rules pass the unit tests of the alerts in which they differ from ours.

    Those of many hours are left out.
    """
    changed = {rule["alert"] for rule in alerts(text) if rule != ALERTS[rule["alert"]]}
    changed |= {name for name, rule in ALERTS.items() if changed_records(text, rule["expr"])}
    unit_tests = parsed(UNIT_TESTS.read_text())
    cases = unit_tests["tests"]
    few = [case for case in cases if not changed or any(name in str(case) for name in changed)]
    named = {name for name in ALERTS if name in str(few)}
    (directory / RULES.name).write_text(without_other_alerts(text, named))
    file = directory / UNIT_TESTS.name
    file.write_text(json.dumps(unit_tests | {"tests": few}))  # JSON is YAML
    return run(promtool, "test", "rules", file).returncode == 0


def changed_records(text: str, expression: str) -> bool:
    """Whether a recording rule that this expression names differs from ours."""
    ours, theirs = records(TEXT), records(text)
    return any(ours[name] != theirs[name] for name in ours if name in expression)


def records(text: str) -> dict[str, str]:
    """The recording rules: the expression of each."""
    rules = [rule for group in parsed(text)["groups"] for rule in group["rules"]]
    return {rule["record"]: rule["expr"] for rule in rules if "record" in rule}


def test_promtool_accepts_the_rules(promtool: str) -> None:
    """Prometheus can load the rules files."""
    result = run(promtool, "check", "rules", RULES, FLEET)
    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_accepts_the_example_configuration(promtool: str) -> None:
    """Prometheus can load the example configuration."""
    result = run(promtool, "check", "config", "--syntax-only", PROMETHEUS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_alerts_fire_and_resolve(tmp_path: Path, promtool: str) -> None:
    """Each alert's unit test holds: silent, then firing, then resolved.

    Each with the alerts that it looks at; with `--long` all at once.
    """
    files: list[Path] = []
    for file in (UNIT_TESTS, SLOW_UNIT_TESTS):
        document = parsed(file.read_text())
        for names, cases in by_alerts(document["tests"]).items():
            folder = tmp_path / f"{len(files)}"
            folder.mkdir()
            (folder / RULES.name).write_text(without_other_alerts(TEXT, names))
            files.append(folder / file.name)
            files[-1].write_text(json.dumps(document | {"tests": cases}))
    assert len(files) > len(ALERTS) / 2
    result = run(promtool, "test", "rules", *files)
    assert result.returncode == 0, result.stdout + result.stderr


def by_alerts(cases: list[dict[str, Any]]) -> dict[frozenset[str], list[dict[str, Any]]]:
    """The cases of unit tests by the alerts that they name."""
    found: dict[frozenset[str], list[dict[str, Any]]] = {}
    for case in cases:
        names = frozenset(re.findall(r"\bMysqlHeadroom\w+", str(case)))
        found.setdefault(names, []).append(case)
    return found


@pytest.mark.long
def test_the_alerts_fire_and_resolve_with_all_others_loaded(promtool: str) -> None:
    """The files as they are: no alert has an error on the series of another one."""
    result = run(promtool, "test", "rules", UNIT_TESTS, SLOW_UNIT_TESTS)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "alert", ["MysqlHeadroomSaturated", "MysqlHeadroomFull", "MysqlHeadroomSaturationPredicted"]
)
def test_an_alert_names_a_limit_as_the_page_does(alert: str) -> None:
    """An operator finds there what the alert is about."""
    described = str(ALERTS[alert]["annotations"]["description"])
    said = dict(re.findall(r'if eq \. "(\w+)" }}([^{]+){{', described))
    assert said == KINDS


def test_the_fleet_rules_have_values_computed_by_hand(promtool: str) -> None:
    """Two groups, a target of two agents, one without a capacity, and no group at all."""
    result = run(promtool, "test", "rules", FLEET_UNIT_TESTS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_fleet_rule_is_tested_and_documented() -> None:
    """Those of single targets are tested through those that use them."""
    tested, documented = FLEET_UNIT_TESTS.read_text(), (ROOT / "docs/fleet.md").read_text()
    for name in records(FLEET.read_text()):
        if name.startswith("group:"):
            assert f"expr: {name}" in tested or f"({name}," in tested, name
            assert f"`{name}`" in documented or name.endswith(":bottomk1"), name


@each_alert
def test_every_alert_has_a_unit_test_with_firing_and_resolution(name: str) -> None:
    """Silence, then fire, then silence again."""
    assert any(
        re.search("-+F+-", "".join("F" if firing else "-" for firing in moments))
        for moments in unit_tested_moments(name)
    )


def unit_tested_moments(name: str) -> list[list[bool]]:
    """For each unit test the moments at which it looks at the alert: is it expected to fire."""
    tests: list[dict[str, Any]] = [
        test for file in (UNIT_TESTS, SLOW_UNIT_TESTS) for test in parsed(file.read_text())["tests"]
    ]
    return [
        [bool(c["exp_alerts"]) for c in test["alert_rule_test"] if c["alertname"] == name]
        for test in tests
        if "alert_rule_test" in test
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            'saturation_soon_probability{horizon="1h"}',
            'saturation_probability{load="1.5"}',
            id="half as much again is an hour",
        ),
        pytest.param('{horizon="1h"}[3m]', '{horizon="1h"}[59s]', id="no median"),
        pytest.param("vector(PAGE)", "vector(0.3)", id="what is less likely pages"),
        pytest.param("vector(WARNING)", "vector(PAGE)", id="a page ends as it began"),
        pytest.param('alertstate="firing"}', 'alertstate="x"}', id="no page is known to fire"),
        pytest.param("vector(WARNING)", "vector(0.04)", id="what is unlikely warns"),
        pytest.param('load="1.25"', 'load="1.5"', id="half as much again is a quarter"),
        pytest.param(">= 0.2\n        for: 0s", ">= 0.1\n        for: 0s", id="far away is close"),
        pytest.param("vector(0.97)", "vector(0.5)", id="half full is full"),
        pytest.param("keep_firing_for: 30m", "keep_firing_for: 0s", id="a good minute resolves"),
        pytest.param('dimension!~"busy|flush"', 'dimension!="flush"', id="a busy disk is full"),
        pytest.param("_overloaded[5m]) == 1\n        for", "_x[5m]) == 1\n        for", id="peak"),
        pytest.param("<= 0.70 * mysql", "<= 0.90 * mysql", id="saturation piles up"),
        pytest.param(
            "_overloaded[5m]) == 1\n            and",
            "_x[2m]) == 1\n            and",
            id="overload piles up",
        ),
        pytest.param(
            "and mysql_headroom_usl_concurrency_source_info",
            "and ignoring (source) mysql_headroom_usl_concurrency_source_info",
            id="another source piles up",
        ),
        pytest.param('horizon="7d"', 'horizon="30d"', id="a month is a week"),
        pytest.param('="7d"}[15m]) >= 0.5', '="7d"}[15m]) >= 0.1', id="unlikely is likely"),
        pytest.param('="7d"}[15m]', '="7d"}[1s]', id="a restart is the end of growth"),
        pytest.param("without (horizon)", "by (target, instance, job)", id="no environment"),
        pytest.param("or absent(mysql_headroom:agent_up)", "", id="absence unnoticed"),
        pytest.param("unless mysql_headroom_up == 0", "", id="stale noise"),
        pytest.param("unless ignoring (collector) mysql_headroom_up == 0", "", id="noise"),
    ],
)
def test_the_unit_tests_fail_on_a_broken_rule(
    old: str, new: str, tmp_path: Path, promtool: str
) -> None:
    """A rule without one of its safeguards does not pass."""
    for name, ratio in THRESHOLDS.items():
        old, new = old.replace(name, ratio), new.replace(name, ratio)
    assert old in TEXT
    assert not pass_their_unit_tests(TEXT.replace(old, new), tmp_path, promtool)


def test_the_unit_tests_pass_an_equivalent_rule(tmp_path: Path, promtool: str) -> None:
    """One that is only written in another way."""
    old = "keep_firing_for: 30m"
    assert old in TEXT
    assert pass_their_unit_tests(TEXT.replace(old, "keep_firing_for: 1800s"), tmp_path, promtool)


def test_a_page_depends_on_a_probability_or_a_measurement() -> None:
    """No critical alert uses another number of a model, trusted or not."""
    pages = {n: r["expr"] for n, r in ALERTS.items() if r["labels"]["severity"] == "critical"}
    assert pages
    assert [name for name, expr in pages.items() if FITTED.search(expr)] == []


def test_every_predictive_alert_is_among_those_tested_below() -> None:
    """Those that use a number of a model, and only those."""
    fitted = {name for name, rule in ALERTS.items() if FITTED.search(rule["expr"])}
    assert fitted == set(BAD)


@pytest.mark.parametrize("name", sorted(BAD))
@pytest.mark.parametrize(
    ("trusts", "fires"),
    [
        pytest.param({"trusted": 1, "indicative": 0, "not_identifiable": 0}, True, id="trusted"),
        pytest.param(
            {"trusted": 0, "indicative": 1, "not_identifiable": 0}, False, id="indicative"
        ),
        pytest.param({"trusted": 0, "indicative": 0, "not_identifiable": 1}, False, id="not known"),
        pytest.param({}, False, id="no word on trust"),
    ],
)
def test_no_alert_fires_on_a_number_that_is_not_trusted(
    name: str, trusts: dict[str, int], fires: bool, tmp_path: Path, promtool: str
) -> None:
    """The same bad numbers raise the alert with trust, and never without."""
    series = dict(BAD[name])
    for metric in TRUSTS:
        for trust, value in trusts.items():
            series[labelled(metric, f'trust="{trust}"')] = f"{value}x{2 * STEPS}"
    severity = ALERTS[name]["labels"]["severity"]
    at = 10 * STEPS + 120 if "offset 1w" in ALERTS[name]["expr"] else 60
    alert = f'ALERTS{{alertname="{name}", alertstate="firing"'
    firing = [{"labels": f'{alert}, severity="{severity}", {LABELS}}}', "value": 1}]
    look = {
        "expr": alert + "}",
        "eval_time": f"{at}m",
        "exp_samples": firing if fires else [],
    }
    case = {
        "interval": "10m" if at > 60 else "1m",
        "input_series": [
            {"series": f"mysql_headroom_{labelled(metric, LABELS)}", "values": values}
            for metric, values in series.items()
        ],
        "promql_expr_test": [look],
    }
    file = tmp_path / "trust.test.yml"
    (tmp_path / RULES.name).write_text(without_other_alerts(TEXT, [name]))
    rules = {
        "rule_files": [RULES.name],
        "evaluation_interval": "30m" if at > 60 else "5m",
        "tests": [case],
    }
    file.write_text(json.dumps(rules))
    result = run(promtool, "test", "rules", file)
    assert result.returncode == 0, result.stdout + result.stderr


def labelled(metric: str, labels: str) -> str:
    """A series with more labels."""
    name, brace, rest = metric.partition("{")
    return f"{name}{{{labels}, {rest}" if brace else f"{name}{{{labels}}}"


def test_averages_of_predictions_are_no_longer_than_the_alerts_duration() -> None:
    """When the alert fires, every number in the average was trusted."""
    averaged = re.compile(FITTED.pattern + r"\[(?P<window>\w+)\]")
    found = [(r["for"], m["window"]) for r in ALERTS.values() for m in averaged.finditer(r["expr"])]
    assert found
    assert all(in_minutes(window) <= in_minutes(wait) for wait, window in found)


def in_minutes(duration: str) -> int:
    """A duration such as 5m or 6h, in minutes."""
    return int(duration[:-1]) * {"m": 1, "h": 60}[duration[-1]]


@each_alert
def test_every_alert_follows_the_conventions(name: str) -> None:
    """The prefix, a known severity, a duration, a summary, a description and nothing else."""
    rule = ALERTS[name]
    assert name.startswith("MysqlHeadroom")
    assert set(rule) - {"keep_firing_for"} == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert all(rule["annotations"].values())


@each_alert
def test_every_alert_has_a_runbook(name: str) -> None:
    """The link leads to a heading of the runbooks, with severity and duration."""
    rule = ALERTS[name]
    assert rule["annotations"]["runbook_url"] == RUNBOOK_URL + name.lower()
    _, heading, rest = RUNBOOKS.partition(f"\n## {name}\n")
    assert heading, f"no heading for {name}"
    section = rest.partition("\n## ")[0]
    assert section.lstrip().startswith(
        f"**{rule['labels']['severity'].capitalize()}**, {in_words(rule['for'])}."
    )


def in_words(duration: str) -> str:
    """A duration as the runbooks write it: 5m is "after 5 minutes"."""
    if duration == "0s":
        return "immediately"
    number, unit = int(duration[:-1]), {"m": "minute", "h": "hour"}[duration[-1]]
    return f"after {number} {unit}{'s' if number != 1 else ''}"


def test_no_runbook_without_an_alert() -> None:
    """The runbooks describe no alert that was removed."""
    assert set(re.findall(r"^## (\S+)$", RUNBOOKS, re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("file", [RULES, UNIT_TESTS, ROOT / "docs/runbooks.md"], ids=str)
def test_every_metric_of_the_rules_is_documented(file: Path) -> None:
    """Also those of their tests and of the runbooks."""
    named = set(re.findall(r"\bmysql_headroom_\w+", file.read_text()))
    assert named
    assert named <= documented_metrics()


def test_the_rules_use_the_example_scrape_job() -> None:
    """The alert on an absent agent names the job of the example configuration."""
    jobs = {job["job_name"] for job in parsed(PROMETHEUS.read_text())["scrape_configs"]}
    assert set(re.findall(r'job="([^"]+)"', TEXT)) == jobs


def test_short_intervals_change_only_the_durations(tmp_path: Path, promtool: str) -> None:
    """The faster rules have the same alerts, thresholds and loads."""
    short = rules_with_short_intervals(TEXT, for_="3s", window="7s")
    impatient = {rule["alert"]: rule for rule in alerts(short)}
    assert impatient.keys() == ALERTS.keys()
    for name, rule in impatient.items():
        assert rule["for"] == "3s"
        assert set(re.findall(r"\[(\w+)\]", rule["expr"])) <= {"7s"}
        assert re.sub(r"\[\w+\]", "", rule["expr"]) == re.sub(r"\[\w+\]", "", ALERTS[name]["expr"])
        assert rule["labels"] == ALERTS[name]["labels"]
    file = tmp_path / "short.rules.yml"
    file.write_text(short)
    assert run(promtool, "check", "rules", file).returncode == 0


@pytest.mark.parametrize("step", [5, 120])
def test_the_saturation_alerts_work_at_any_scrape_interval(
    step: int, tmp_path: Path, promtool: str
) -> None:
    """Of 5 s to 2 min: silent before, firing within 12 minutes, resolved."""
    bad = {
        "MysqlHeadroomSaturated": ('saturation_soon_probability{horizon="1h"}', (0.05, 0.99)),
        "MysqlHeadroomSaturationPredicted": ('saturation_probability{load="1.25"}', (0.3, 0.99)),
        "MysqlHeadroomFull": ('resource_utilisation_ratio{resource="cpu"}', (0.5, 0.99)),
        "MysqlHeadroomTargetDown": ("up", (1, 0)),
    }
    minutes = (20, 20, 70)  # well, ill and well again
    tests = [
        {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
            "eval_time": f"{at}m",
            "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
        }
        for name in bad
        for at, fires in ((18, False), (32, True), (38, True), (108, False))
    ]
    fresh = {"last_sample_timestamp_seconds": step, "last_assessment_timestamp_seconds": step}
    series = [
        {
            "series": f"mysql_headroom_{labelled(metric, LABELS)}",
            "values": " ".join(
                f"{values[k % 2]}x{60 * length // step - 1}" for k, length in enumerate(minutes)
            ),
        }
        for metric, values in bad.values()
    ]
    series += [
        {"series": f"mysql_headroom_{name}{{{LABELS}}}", "values": f"0+{by}x{6600 // step}"}
        for name, by in fresh.items()
    ]
    quiet = 'count(ALERTS{alertname=~"MysqlHeadroom.*Stale"})'
    tests += [{"expr": quiet, "eval_time": f"{at}m", "exp_samples": []} for at in (17, 61, 109)]
    case = {"interval": f"{step}s", "input_series": series, "promql_expr_test": tests}
    file = tmp_path / "interval.test.yml"
    profile_of = [name for name in ALERTS if name in bad or name.endswith("Stale")]
    (tmp_path / RULES.name).write_text(without_other_alerts(TEXT, profile_of))
    document = {"rule_files": [RULES.name], "evaluation_interval": f"{step}s", "tests": [case]}
    file.write_text(json.dumps(document))
    result = run(promtool, "test", "rules", file)
    assert result.returncode == 0, result.stdout + result.stderr
