"""The alerts of a replay: they fire and end when Prometheus has the shipped rules do so."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml
from prometheus_rules import RULES, without_other_alerts

from agent.replay.alert_rules import RULES as REPLAYED
from agent.replay.alert_rules import Alerts, Scrape
from agent.window.concurrency import ConcurrencySource

STEP = 15  # seconds between two scrapes, and two evaluations
LASTING = (2, 5, 12, 25, 45)  # minutes for which a server stays as it is
LABELS = 'target="db", instance="agent:10104", job="mysql-headroom"'
N_UPPER, X_MAX = 20.0, 1000.0


def scrapes(seed: int, hours: int) -> Iterator[Scrape]:
    """A server that is now idle, now full, overloaded or unknown, its law trusted or not."""
    random = Random(seed)
    at = 0.0
    while at < 3600 * hours:
        known, trusted = random.random() < 0.9, random.random() < 0.8
        likely = random.choice([0.05, 0.1, 0.3, 0.45, 0.99])
        near = max(likely, random.choice([0.3, 0.5, 0.99]))
        overloaded, cpu = random.random() < 0.3, random.choice([0.5, 0.99])
        crowd, share = random.choice([5.0, 40.0, 40.0]), random.choice([0.3, 0.9])
        for _ in range(60 // STEP * random.choice(LASTING) + random.randrange(4)):
            odd = random.random() < 0.1
            yield Scrape(
                at=at,
                overloaded=float(overloaded) if known else None,
                throughput=round(share * X_MAX + random.gauss(0, 50), 1) if known else None,
                concurrency={ConcurrencySource.STATEMENT_TIME: round(crowd + random.gauss(0, 3), 2)}
                if known
                else {},
                source=ConcurrencySource.STATEMENT_TIME if known else None,
                law_trusted=known and trusted,
                n_max_upper=N_UPPER if known else None,
                x_max=X_MAX if known else None,
                saturation_by_growth={1.25: 0.45 if odd else near} if known else {},
                saturation_by_time={3600: 0.35 if odd else likely} if known else {},
                resources={"cpu": cpu, "disk:sda": 1.0} if known else {},
            )
            at += STEP


def series(found: Sequence[Scrape]) -> list[dict[str, str]]:
    """The scrapes as promtool takes them: `stale` where a series ends, `_` while there is none."""
    columns: dict[str, list[float | None]] = {
        'saturation_soon_probability{horizon="1h", %s}': [
            s.saturation_by_time.get(3600) for s in found
        ],
        'saturation_probability{load="1.25", %s}': [
            s.saturation_by_growth.get(1.25) for s in found
        ],
        'resource_utilisation_ratio{resource="cpu", %s}': [s.resources.get("cpu") for s in found],
        'resource_utilisation_ratio{resource="disk", device="sda", dimension="busy", %s}': [
            s.resources.get("disk:sda") for s in found
        ],
        "overloaded{%s}": [s.overloaded for s in found],
        "throughput_queries_per_second{%s}": [s.throughput for s in found],
        'concurrency{source="statement_time", %s}': [
            s.concurrency.get(ConcurrencySource.STATEMENT_TIME) for s in found
        ],
        'usl_concurrency_source_info{source="statement_time", %s}': [
            None if s.source is None else 1.0 for s in found
        ],
        'usl_trust{trust="trusted", %s}': [
            None if s.source is None else float(s.law_trusted) for s in found
        ],
        "usl_max_concurrency_upper{%s}": [s.n_max_upper for s in found],
        "usl_max_throughput_queries_per_second{%s}": [s.x_max for s in found],
    }
    return [
        {"series": f"mysql_headroom_{name % LABELS}", "values": " ".join(shown(values))}
        for name, values in columns.items()
    ]


def shown(values: Sequence[float | None]) -> Iterator[str]:
    """Each value, and what is there instead of one."""
    before: float | None = None
    for value in values:
        yield f"{value:g}" if value is not None else "stale" if before is not None else "_"
        before = value


def states(found: Sequence[Scrape]) -> Iterator[tuple[float, dict[str, str]]]:
    """What a replay says at each scrape: pending or firing, by alert."""
    alerts = Alerts()
    for scrape in found:
        alerts.observe(scrape)
        active = [episode for episode in alerts.take() if episode.resolved_at is None]
        state = {e.alert: "pending" if e.firing_at is None else "firing" for e in active}
        yield scrape.at, state


def test_the_replays_alerts_are_those_of_the_shipped_rules(promtool: str, tmp_path: Path) -> None:
    """Throughout eight made-up hours, each alert is pending or firing in both or in neither."""
    found = list(scrapes(seed=10, hours=8))
    expected = [(at, state) for at, state in states(found) if at % 45 == 0]
    names = "|".join(rule.alert for rule in REPLAYED)
    said = {state for _, by_alert in expected for state in by_alert.items()}
    waiting = {(r.alert, "pending") for r in REPLAYED if r.for_seconds}
    assert said == waiting | {(r.alert, "firing") for r in REPLAYED}
    tests: list[dict[str, Any]] = [
        {
            "expr": f'ALERTS{{alertname=~"{names}"}}',
            "eval_time": f"{at:.0f}s",
            "exp_samples": [{"labels": labels(*one), "value": 1} for one in state.items()],
        }
        for at, state in expected
    ]
    rules = without_other_alerts(RULES.read_text(), [rule.alert for rule in REPLAYED])
    (tmp_path / RULES.name).write_text(rules)
    document = {
        "rule_files": [RULES.name],
        "evaluation_interval": f"{STEP}s",
        "tests": [
            {"interval": f"{STEP}s", "input_series": series(found), "promql_expr_test": tests}
        ],
    }
    file = tmp_path / "replayed.test.yml"
    file.write_text(yaml.safe_dump(document, width=10**9))
    ended = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4000]


def labels(alert: str, state: str) -> str:
    """The series that Prometheus has of an alert in that state."""
    severity = next(rule.severity for rule in REPLAYED if rule.alert == alert)
    of_alert = f'alertname="{alert}", alertstate="{state}", severity="{severity}"'
    return f"ALERTS{{{of_alert}, {LABELS}}}"
