"""Business metrics in the configuration: what is accepted, and one clear line for what is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from error_lines import mistakes

from agent.config.business_metrics import BusinessMetric
from agent.config.loader import load_config

USERS = {"name": "active_users", "unit": "users", "query": "SELECT COUNT(*) FROM shop.sessions"}
ORDERS = {
    "name": "orders",
    "unit": "orders/s",
    "prometheus": {"url": "http://p:9090", "query": "o"},
}


def file_with(folder: Path, *metrics: dict[str, Any]) -> Path:
    """A configuration of one target with these business metrics."""
    file = folder / "config.yaml"
    target = {"name": "db", "user": "u", "business_metrics": list(metrics)}
    file.write_text(yaml.safe_dump({"targets": [target]}))
    return file


def test_a_query_and_prometheus_are_accepted_with_their_defaults(tmp_path: Path) -> None:
    """Every minute, with a second for the server's answer."""
    target = load_config(file_with(tmp_path, USERS, ORDERS)).targets[0]
    users, orders = target.business_metrics
    assert (users.name, users.interval, users.timeout) == ("active_users", 60.0, 1.0)
    assert orders.prometheus is not None
    assert orders.prometheus.access(orders.timeout).timeout == 1.0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM shop.sessions;",
        "  with x as (select 1 as n) select n from x ",
        "SELECT COUNT(*) FROM shop.orders WHERE note = 'see ; # -- INTO FOR UPDATE'",
        "SELECT `update` FROM shop.`into` LIMIT 1",
        "SELECT COUNT(*) FROM shop.sessions WHERE id = 'it''s' AND a = 'b\\'c'",
    ],
)
def test_one_select_is_accepted(query: str) -> None:
    """With any text within quotes; its semicolon is removed."""
    accepted = BusinessMetric.validated({"name": "n", "unit": "u", "query": query})
    assert accepted.query == query.strip().removesuffix(";")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"query": "DELETE FROM shop.orders"},
            ".query: must be a single SELECT that returns one number",
        ),
        (
            {"query": "SELECT 1; DROP TABLE shop.t"},
            ".query: must be a single SELECT that returns one",
        ),
        (
            {"query": "SELECT id FROM shop.t FOR  UPDATE"},
            ".query: must not lock rows; remove FOR UPDATE",
        ),
        (
            {"query": "SELECT 1 FROM shop.t lock in share mode"},
            ".query: must not lock rows; remove FOR",
        ),
        (
            {"query": "SELECT 1 INTO OUTFILE '/tmp/x'"},
            ".query: must not write a file or a variable; remove INTO",
        ),
        ({"query": "SELECT /*+ SET_VAR(a=1) */ 1"}, ".query: comments and hints are not accepted"),
        ({"query": "SELECT 1 -- all"}, ".query: comments and hints are not accepted"),
        ({"query": "SELECT 1 # all"}, ".query: comments and hints are not accepted"),
        ({"query": None}, ": give either a query or prometheus"),
        ({"prometheus": ORDERS["prometheus"]}, ": give either a query or prometheus"),
        ({"name": "Active"}, ".name: must have up to 63 small letters"),
        ({"unit": ""}, ".unit: must have 1 to 40 characters"),
        ({"interval": "2h"}, ".interval: must be from 1s to 1h"),
        ({"timeout": "20s"}, ".timeout: must be from 100ms to 10s"),
        ({"timeout": "9s", "interval": "10s"}, ".timeout: must be at most half of interval"),
        ({"sql": "SELECT 1"}, ".sql: unknown key"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    tmp_path: Path, changed: dict[str, Any], expected: str
) -> None:
    """The key and the valid form."""
    [problem] = mistakes(load_config, file_with(tmp_path, {**USERS, **changed}))
    assert f"targets[0].business_metrics[0]{expected}" in problem


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"url": "p:9090"}, "'p:9090' is not a URL; write http://HOST:9090"),
        ({"url": "htp://me:secret@p:9090"}, "'***@p:9090' is not a URL; write http://HOST:9090"),
        ({"url": "http://me:secret@p"}, "not belong in the URL; use user and password_file"),
        ({"password_file": "/dev/null"}, "password_file"),
        ({"query": ""}, "query"),
    ],
)
def test_a_mistake_in_prometheus_is_one_line(
    tmp_path: Path, changed: dict[str, Any], expected: str
) -> None:
    """Its URL, login and query are checked when the file is read."""
    broken = {**ORDERS, "prometheus": {"url": "http://p:9090", "query": "o", **changed}}
    [problem] = mistakes(load_config, file_with(tmp_path, broken))
    assert "business_metrics[0].prometheus" in problem
    assert expected in problem
    assert "secret" not in problem


def test_names_are_distinct_and_at_most_eight(tmp_path: Path) -> None:
    """The name is a label; each metric costs the server a query."""
    [twice] = mistakes(load_config, file_with(tmp_path, USERS, USERS))
    assert "business_metrics: the name 'active_users' is given twice" in twice
    many = [{**USERS, "name": f"n{k}"} for k in range(9)]
    [more] = mistakes(load_config, file_with(tmp_path, *many))
    assert "business_metrics: " in more
