"""The docs tell the truth: examples print what they show, and links lead somewhere."""

import re
import shlex
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor

from agent.assessment.deploy_markers import MAX_MARKERS
from agent.cli import main
from agent.config.yaml_loader import MAX_BYTES, MAX_NODES, MAX_PROBLEMS
from agent.demo.private_server import PrivateServer
from agent.history.server_identity import MAX_NEW_SERVERS
from agent.query_classes.assessment import MAX_TRACKED, TRACKED_PER_SHOWN
from agent.replay.alert_rules import (
    CLOSE_LOAD,
    CLOSE_PROBABILITY,
    OVERLOAD_CONCURRENCY,
    OVERLOAD_THROUGHPUT,
    PAGE_PROBABILITY,
    WARNING_PROBABILITY,
)
from agent.support.logs import BURST
from agent.web.config import MAX_COST
from agent.web.http_listener import (
    ACCEPT_BURST,
    BACKLOG,
    MAX_ACCEPTED_PER_SECOND,
    MAX_CONNECTIONS,
)
from agent.web.http_request_handler import MAX_REQUEST_BYTES
from agent.web.marker_requests import MAX_PER_MINUTE
from agent.web.password_queue import MAX_WAITING, MAX_WAITING_PER_NETWORK
from agent.web.shared_responses import MAX_WAIT_SECONDS
from models.capacity.contention_peak import MIN_CONTENDING
from models.capacity.device_parallelism import CHANNELS
from models.capacity.doubts import MAX_FLUCTUATION, MIN_NEAR_INTERVALS
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.capacity.utilisation_fit import (
    MODEL_PRIORS,
    PROCESSOR_MODEL_PRIORS,
    UNCOUNTED_WAKEUP_MODEL_PRIORS,
)
from models.shared_constants import (
    CERTAIN_Z,
    MIN_LASTING,
    MIN_LOAD_RATIO,
    MIN_POINTS,
    NEAR_SHARE,
    PERIODS,
    TOLERATED_CHANGE,
)
from models.trust import MAX_ERROR, MIN_LOAD, TRUSTED_RATIO
from models.usl.residence_curve import RELATIVE_ERROR
from testbed.real.daemon import wait_until

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
USUAL = tuple(share / sum(MODEL_PRIORS) for share in MODEL_PRIORS)
STAYS, _, FALLS, FALLS_UNSEEN = (
    share / sum(UNCOUNTED_WAKEUP_MODEL_PRIORS) for share in UNCOUNTED_WAKEUP_MODEL_PRIORS
)
STATED = (
    ("README.md", f"from {NUMBERS[MIN_POINTS]} intervals"),
    (
        "docs/attribution.md",
        f"{NUMBERS[TRACKED_PER_SHOWN]} times as many as are displayed, at most {MAX_TRACKED})",
    ),
    ("docs/business-metrics.md", f"less than {MIN_LOAD_RATIO} times the 5 % quantile"),
    (
        "docs/capacity-model.md",
        f"unless in {NUMBERS[MIN_LASTING]} intervals at least {NUMBERS[int(MIN_CONTENDING)]} "
        "statements waited elsewhere",
    ),
    ("docs/capacity.md", f"where throughput has fallen by {MAX_ERROR:.0%}"),
    ("docs/capacity.md", f"95 % quantile below {TRUSTED_RATIO:.2f} times the 5 % quantile"),
    ("docs/capacity.md", f"less than {MIN_LOAD:.0%} of the capacity was seen"),
    ("docs/capacity.md", f"fluctuates by {MAX_FLUCTUATION:.0%} between periods"),
    ("docs/capacity.md", f"has drifted by {TOLERATED_CHANGE:.0%} since the high loads"),
    ("docs/capacity.md", f"is expected to cost {TOLERATED_CHANGE:.0%} less at the limit"),
    (
        "docs/capacity.md",
        f"fewer than {NUMBERS[MIN_NEAR_INTERVALS]} intervals reached {NEAR_SHARE:.0%}",
    ),
    *(
        ("docs/capacity-model.md", f"| {usual:.0%} | {of_processor:.0%} |")
        for usual, of_processor in zip(USUAL, PROCESSOR_MODEL_PRIORS, strict=True)
    ),
    (
        "docs/capacity-model.md",
        f"with a prior of {FALLS_UNSEEN:.0%} (stays: {STAYS:.0%}, falls with U: {FALLS:.0%})",
    ),
    ("docs/capacity-model.md", f"1, 2, 4, … and {CHANNELS[-1]} channels are equally probable"),
    ("docs/capacity-model.md", f"up to {PERIODS} periods of the window"),
    (
        "docs/configuration.md",
        f"at most {MAX_BYTES // 2**20} MiB and {MAX_NODES:,} keys and values",
    ),
    ("docs/configuration.md", f"a line for each mistake, at most {MAX_PROBLEMS}:"),
    ("docs/configuration.md", f"Of equal lines {NUMBERS[BURST]} are written at once"),
    ("docs/history.md", f"A target may be {MAX_NEW_SERVERS} servers in a day"),
    ("docs/runbooks.md", f"With a probability of {PAGE_PROBABILITY:.0%} or more the load reaches"),
    ("docs/runbooks.md", f"while the probability is {WARNING_PROBABILITY:.0%} or more"),
    (
        "docs/runbooks.md",
        f"With a probability of {WARNING_PROBABILITY:.0%} or more the load reaches the capacity"
        f" within an hour, and with one of {CLOSE_PROBABILITY:.0%} or more it would with"
        f" {CLOSE_LOAD - 1:.0%} more load",
    ),
    ("docs/runbooks.md", f"are used to {FULL_UTILISATION:.0%} or more"),
    ("docs/runbooks.md", f"{OVERLOAD_CONCURRENCY - 1:.0%} more statements than the upper bound"),
    ("docs/runbooks.md", f"at least {1 - OVERLOAD_THROUGHPUT:.0%} of the USL peak throughput"),
    ("docs/web.md", f"| connections at once | {MAX_CONNECTIONS};"),
    (
        "docs/web.md",
        f"{MAX_ACCEPTED_PER_SECOND:g} a second on average, {ACCEPT_BURST} at once;"
        f" the kernel queues {BACKLOG:,} more",
    ),
    ("docs/web.md", f"headers together | {MAX_REQUEST_BYTES // 1024} KiB"),
    (
        "docs/web.md",
        f"{MAX_WAITING} clients may wait for a check, {MAX_WAITING_PER_NETWORK} of them",
    ),
    ("docs/web.md", f"after a wait of {MAX_WAIT_SECONDS:g} s a request gets"),
    ("docs/web.md", f"a cost above {MAX_COST} is rejected"),
    ("docs/web.md", f"{MAX_PER_MINUTE} set in a minute, others get `429`; {MAX_MARKERS:,} kept"),
    ("docs/models.md", f"relative error is beyond {CERTAIN_Z * RELATIVE_ERROR:.0%}"),
)
"""Pages, and what they say of numbers in the code."""


def test_the_readmes_fit_prints_the_shown_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line, and the values that the text below gives at 2 ms."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text()
    shown = re.search(
        r"<!-- example: fit -->\n```\n\$ mysql-headroom ([^\n]*)\n(.*?)```", text, flags=re.DOTALL
    )
    assert shown is not None
    assert main(shlex.split(shown[1])) == 0
    assert capsys.readouterr().out == shown[2]
    assert main([*shlex.split(shown[1]), "--residence-time", "2ms"]) == 0
    stated = re.search(r"2 ms a query is (\S+ threads) and (\S+ queries/s)\.", text)
    assert stated is not None
    assert f"residence time 2ms: {stated[1]}, {stated[2]}, " in capsys.readouterr().out


@pytest.mark.parametrize(("page", "stated"), STATED)
def test_the_docs_give_the_numbers_of_the_code(page: str, stated: str) -> None:
    """A changed constant needs a changed page."""
    text = " ".join((ROOT / page).read_text().split())
    assert stated.replace("%", " %").replace("  %", " %") in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_has_a_target(page: Path) -> None:
    """The file exists, and so does the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_have_a_digit_before_the_point(page: Path) -> None:
    """0.3, not the point alone."""
    assert re.findall(r"(?m)(?:^|[\s(|~±−–/])\.\d.*", page.read_text()) == []


def test_every_file_that_the_docs_name_exists() -> None:
    """Code spans that look like a path of the project are one."""
    for page in PAGES:
        for name in re.findall(
            r"`((?:agent|collectors|models|tests|testbed|deploy|scripts|bench)/[\w./-]+)`",
            page.read_text(),
        ):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_constant_that_the_ablation_names_exists() -> None:
    """As `module.CONSTANT`, with the module's name of today."""
    modules = {path.stem: path.read_text() for path in (ROOT / "models").rglob("*.py")}
    named = re.findall(r"`(\w+)\.\(?([A-Z][A-Z_]+)", (ROOT / "docs/ablation.md").read_text())
    assert len(named) > 30
    for module, constant in named:
        assert re.search(rf"(?m)^[A-Z_, ]*\b{constant}\b.* = ", modules[module]), (module, constant)


def test_the_readme_links_to_every_page() -> None:
    """A reader who starts there misses none."""
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert linked == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


RUNBOOKS = ROOT / "docs/runbooks.md"


def test_the_statements_of_the_runbooks_run(server: PrivateServer) -> None:
    """On each release, as someone who was woken types them."""
    statements = re.findall(r"`((?:SHOW|SELECT) [^`]+)`", RUNBOOKS.read_text())
    assert len(statements) > 3
    with server.connect_as_root() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_the_runbooks_statements_find_who_holds_a_lock(server: PrivateServer) -> None:
    """A transaction that stays open, an update that waits for its row, an ALTER for its table."""

    def wait_for(statement: str) -> None:
        with server.connect_as_root() as waiting, suppress(pymysql.err.OperationalError):
            waiting.cursor().execute(statement)

    holding = server.connect_as_root()
    holder = holding.thread_id()  # type: ignore[no-untyped-call]
    cursor = holding.cursor()
    for statement in (
        "CREATE DATABASE held",
        "CREATE TABLE held.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO held.t VALUES (1, 1)",
        "BEGIN",
        "UPDATE held.t SET v = 2",
    ):
        cursor.execute(statement)
    statements = ("UPDATE held.t SET v = 3", "ALTER TABLE held.t ADD COLUMN w INT")
    waiting = [threading.Thread(target=wait_for, args=(s,), daemon=True) for s in statements]
    try:
        with server.connect_as_root() as connection, connection.cursor(DictCursor) as looking:

            def rows(statement: str) -> list[dict[str, Any]]:
                assert f"`{statement}`" in " ".join(RUNBOOKS.read_text().split()), statement
                looking.execute(statement)
                return [*looking.fetchall()]

            waiting[0].start()
            row_locks = wait_until("a wait", lambda: rows("SELECT * FROM sys.innodb_lock_waits"))
            waiting[1].start()
            looks = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock'"
            wait_until("another wait", lambda: looking.execute(looks))
            kill = f"KILL {holder}"
            assert [row["sql_kill_blocking_connection"] for row in row_locks] == [kill]
            metadata = rows("SELECT * FROM sys.schema_table_lock_waits")
            if server.flavour == "mysql":
                assert kill in {row["sql_kill_blocking_connection"] for row in metadata}
            else:
                assert metadata == []
                text = "SELECT * FROM information_schema.innodb_trx ORDER BY trx_started"
                open_ones = rows(text)
                first = open_ones[0]["trx_started"]  # in whole seconds
                oldest = [row for row in open_ones if row["trx_started"] == first]
                assert holder in {row["trx_mysql_thread_id"] for row in oldest}
            looking.execute(kill)
    finally:
        holding.close()
        for thread in waiting:
            if thread.ident is not None:
                thread.join(10)
        with server.connect_as_root() as connection, connection.cursor() as cleaning:
            cleaning.execute("DROP DATABASE held")


def test_a_variable_that_the_runbooks_name_exists_where_they_say(server: PrivateServer) -> None:
    """MariaDB has no innodb_thread_concurrency, and the runbook says so."""
    text = " ".join(RUNBOOKS.read_text().split())
    assert "MySQL, unlike MariaDB, also has `innodb_thread_concurrency`" in text
    with server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'innodb_thread_concurrency'")
        assert bool(cursor.fetchall()) == (server.flavour == "mysql")
