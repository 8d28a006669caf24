"""What clients say to the server, and the agent's own password, come out nowhere."""

import base64
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import pymysql
from live import (
    COMMAND,
    Clients,
    Daemon,
    root,
    run_as_root,
    target,
    wait_until,
    watching,
)
from servers import Account, least_account

from agent.demo.server import PrivateServer
from agent.logs import FORMATS

PATHS = ("/", "/metrics", "/-/healthy", "/-/ready", "/-/reload", "/no-such-page")
ACCEPTED = ("text/plain", "application/openmetrics-text; version=1.0.0", "text/html")
CURVE = "concurrency,throughput\n1,955\n2,1878\n4,3548\n8,6531\n16,9897\n"


class Planted(NamedTuple):
    """Words that nobody but the server may ever say, each by where it was put."""

    literal: str = "LiteralQz7"
    comment: str = "CommentQz7"
    user: str = "UserQz7"
    first_password: str = "FirstPasswordQz7"
    second_password: str = "SecondPasswordQz7"
    error: str = "ErrorQz7"
    duplicate: str = "DuplicateQz7"
    prepared: str = "PreparedQz7"
    slow: str = "SlowQz7"
    header: str = "HeaderQz7"
    address: str = "AddressQz7"
    wrong_password: str = "WrongPasswordQz7"


PLANTED = Planted()
STATEMENTS = (
    f"DROP USER IF EXISTS '{PLANTED.user}'@'%'",
    f"CREATE USER '{PLANTED.user}'@'%' IDENTIFIED BY '{PLANTED.first_password}'",
    f"SELECT '{PLANTED.literal}', '{PLANTED.literal}' = 'a'",
    f"SELECT /* {PLANTED.comment} */ 1 -- {PLANTED.comment}",
    f"PREPARE s FROM 'SELECT ''{PLANTED.prepared}'''",
    "EXECUTE s",
    "CREATE DATABASE IF NOT EXISTS planted",
    "CREATE OR REPLACE VIEW planted.v AS SELECT 1",
    "CREATE TABLE IF NOT EXISTS planted.t (a VARCHAR(64) PRIMARY KEY)",
    f"REPLACE INTO planted.t VALUES ('{PLANTED.duplicate}')",
)
FAILING = (
    f"SELECT '{PLANTED.error}' FROM nowhere.at_all",
    f"SELEC '{PLANTED.error}'",
    f"INSERT INTO planted.t VALUES ('{PLANTED.duplicate}')",
    f"SELECT JSON_EXTRACT('{PLANTED.error}', '$.a')",
)
SET_PASSWORD = {
    "mysql": f"SET PASSWORD FOR '{PLANTED.user}'@'%' = '{PLANTED.second_password}'",
    "mariadb": f"SET PASSWORD FOR '{PLANTED.user}'@'%' = PASSWORD('{PLANTED.second_password}')",
}
NAP = f"SELECT SLEEP(0.2), '{PLANTED.slow}' /* {PLANTED.slow} */"
IN_FLIGHT_ON = (
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"
    " WHERE NAME = 'events_statements_current'"
)


def plant(server: PrivateServer) -> None:
    """Say all of it to the server, in ways that succeed and in ways that fail."""
    with root(server) as ask:
        for statement in (IN_FLIGHT_ON, *STATEMENTS):
            ask(statement)
        for statement in FAILING:
            with suppress(pymysql.MySQLError):
                ask(statement)
        ask(SET_PASSWORD[server.flavour])
    with suppress(pymysql.MySQLError):
        pymysql.connect(
            unix_socket=server.socket, user=PLANTED.user, password=PLANTED.wrong_password
        )


def lock_out(server: PrivateServer, folder: Path, account: Account, agent: Daemon) -> None:
    """Have the agent try a wrong password, and then the right one again."""
    (folder / "db.password").write_text(PLANTED.wrong_password)
    table = "information_schema.processlist WHERE user"
    with root(server) as ask:
        for (session,) in ask(f"SELECT id FROM {table} = '{account.user}'"):
            with suppress(pymysql.MySQLError):
                ask(f"KILL {session}")
    wait_until("denied", lambda: agent.get("collector_failures_total", kind="denied"))
    (folder / "db.password").write_text(account.password)
    wait_until("up", lambda: agent.get("up") == 1)


def answers(port: int) -> bytes:
    """Everything that is to be had over HTTP, asked with secrets of its own."""
    said = b""
    basic = base64.b64encode(f"a:{PLANTED.header}".encode()).decode()
    for path in PATHS:
        for accept in ACCEPTED:
            url = f"http://127.0.0.1:{port}{path}?password={PLANTED.address}"
            headers = {"Accept": accept, "Authorization": f"Basic {basic}"}
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(url, headers=headers), timeout=5
                ) as answer:
                    said += str(answer.headers).encode() + answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    said += str(error.headers).encode() + error.read()
    return said


def files(folder: Path, agent: Daemon) -> dict[str, bytes]:
    """Every file in the agent's folder but the password, every file that it has open, and /proc."""
    process = psutil.Process(agent.process.pid)
    paths = {path for path in folder.rglob("*") if path.is_file()} - {folder / "db.password"}
    paths |= {Path(file.path) for file in process.open_files()}
    proc = Path("/proc") / str(process.pid)
    paths |= {proc / "cmdline", proc / "environ", proc / "status"}
    return {str(path): path.read_bytes() for path in paths}


def command_outputs(folder: Path) -> dict[str, bytes]:
    """What the other commands say, of the same configuration and of a table with a remark."""
    curve = folder / "curve.csv"
    curve.write_text(CURVE)
    said = {}
    for name, arguments in (
        ("check", ["check", "--config.file", str(folder / "config.yaml")]),
        ("fit", ["fit", str(curve)]),
    ):
        done = subprocess.run([COMMAND, *arguments], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done
        said[name] = done.stdout + done.stderr
    return said


def is_loaded(agent: Daemon) -> bool:
    """Whether it shows that clients are at work."""
    return (agent.get("concurrency", source="statement_time") or 0) > 1


def leaks(outputs: Mapping[str, bytes], words: Mapping[str, str]) -> list[str]:
    """Which word came out where, whatever its case and in whatever disguise it was sent."""
    return [
        f"{kind} in {place}"
        for place, said in outputs.items()
        for kind, word in words.items()
        for way in (word, base64.b64encode(word.encode()).decode())
        if way.lower().encode() in said.lower()
    ]


def test_no_secret_comes_out(server: PrivateServer, tmp_path: Path) -> None:
    """Not of a literal, a comment, an account or an error, on no way out, in no file, at debug.

    The server has seen them all, and one agent of each log format has watched it do so.
    """
    account = least_account(server)
    words = {**PLANTED._asdict(), "own password": account.password}
    outputs: dict[str, bytes] = {}
    with ExitStack() as stack:
        agents = {}
        for style in FORMATS:
            folder = tmp_path / style
            folder.mkdir()
            log = {"level": "debug", "format": style}
            there = target(folder, server, account)
            kept = {"path": str(folder / "history" / "history.db")}
            agents[style] = stack.enter_context(watching(folder, there, log=log, history=kept))
        plant(server)
        with Clients(server, NAP, 3):
            for style, agent in agents.items():
                wait_until("load", partial(is_loaded, agent))
                lock_out(server, tmp_path / style, account, agent)
                outputs[f"{style} web"] = answers(agent.port)
            time.sleep(1)
        for style, agent in agents.items():
            outputs |= files(tmp_path / style, agent)
        stack.callback(run_as_root, server, f"DROP USER '{PLANTED.user}'@'%'")
        outputs |= command_outputs(tmp_path / FORMATS[0])
    for style in FORMATS:
        outputs[f"{style} log"] = (tmp_path / style / "agent.log").read_bytes()
        assert b"denied" in outputs[f"{style} log"]
        assert b"http" in outputs[f"{style} log"]
        assert b"mysql_headroom_concurrency" in outputs[f"{style} web"]
    assert leaks(outputs, words) == []
    assert leaks({"a file": PLANTED.slow.encode()}, words) == ["slow in a file"]
    assert run_as_root(server, SEEN)[0][0] > 0


SEEN = (
    "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest"
    " WHERE DIGEST_TEXT LIKE 'SELECT %SLEEP%'"
)
