"""What the tests of the Prometheus rules share, including the live one."""

import json
import re
from collections.abc import Collection, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "deploy/prometheus/mysql-headroom.rules.yml"

_RANGE = re.compile(r"\[[0-9a-z]+\]")


@cache
def parsed(text: str) -> Any:
    """Parse a YAML text, each once, by libyaml: ten times as fast as the Python parser."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def alerts(text: str) -> Iterator[dict[str, Any]]:
    """Return every alerting rule of a rules file."""
    for group in parsed(text)["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                yield rule


def without_other_alerts(text: str, names: Collection[str]) -> str:
    """The same rules with these alerts alone, as JSON, which is YAML.

    For a test that looks at no other: each costs promtool a third of a millisecond an evaluation.
    """
    rules = deepcopy(parsed(text))
    for group in rules["groups"]:
        group["rules"] = [r for r in group["rules"] if r.get("alert") in {None, *names}]
    return json.dumps(rules)


def documented_metrics() -> set[str]:
    """Return the names in the first cells of the tables of docs/metrics.md."""
    page = (ROOT / "docs/metrics.md").read_text()
    cells = re.findall(r"^\| (`mysql_headroom_[^|]*) \|", page, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"mysql_headroom_\w+", cell)}


def rules_with_short_intervals(text: str, for_: str = "2s", window: str = "10s") -> str:
    """The same rules, impatient: for a live test that cannot wait for hours.

    Every `for` and `keep_firing_for` becomes `for_`, every range such as `[15m]` becomes
    `[window]`, and every group is evaluated each second. The thresholds stay as they are, ages in
    seconds included.
    """
    rules = deepcopy(parsed(text))
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["expr"] = _RANGE.sub(f"[{window}]", rule["expr"])
            if "for" in rule:
                rule["for"] = for_
            if "keep_firing_for" in rule:
                rule["keep_firing_for"] = for_
    return yaml.safe_dump(rules, sort_keys=False, allow_unicode=True)
