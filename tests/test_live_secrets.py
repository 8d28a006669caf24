"""What clients say to the server, and the agent's own password, come out nowhere."""

import base64
import subprocess
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pymysql
import pytest
from conftest import one_in_every_run
from history_rows import rows
from planted_secrets import NAME, NAP, PLANTED, SCHEMA, TAIL, leaks, planting

from agent.demo.private_server import PrivateServer
from agent.history.row_kinds import CLASSES as USES
from testbed.real.clients import Clients, root
from testbed.real.daemon import COMMAND, PREFIX, Daemon, Page, target, wait_until, watching
from testbed.real.server_account import Account, least_account

PATHS = (
    *("/", "/?target=db", "/metrics", "/api/v1/snapshot", "/api/v1/snapshot?target=db"),
    *("/-/healthy", "/-/ready", "/-/reload", "/no-such-page"),
)
CLASSES = {"interval": "5s", "top": 200}
WITH_TEXT = {"logfmt": False, "json": True}  # by log format, whether digest texts are exported
HISTORY = Path("history") / "history.db"
CUT = 256  # characters of a digest text in a metric
ACCEPTED = ("text/plain", "application/openmetrics-text; version=1.0.0", "text/html")
RANKED = "--format json --top 400"
PROFILES = (
    f"profile --seconds 3 {RANKED}",
    f"profile --since start {RANKED}",
    f"profile --since 1h {RANKED}",
)
EXPORTS = (
    "history export --kind all --format openmetrics",
    "history export --kind classes",
)
COMMANDS = ("check", "history show", *EXPORTS, *PROFILES, *(f"{p} --text" for p in PROFILES))
CURVE = "concurrency,throughput\n1,955\n2,1878\n4,3548\n8,6531\n16,9897\n"


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


def command_outputs(folder: Path, commands: Iterable[str]) -> dict[str, bytes]:
    """What the other commands say, of the same configuration and of a curve."""
    curve = folder / "curve.csv"
    curve.write_text(CURVE)
    configured = ("--config.file", str(folder / "config.yaml"))
    of_it = {command: output(*command.split(), *configured) for command in commands}
    return {**of_it, "fit": output("fit", str(curve))}


def output(*words: str) -> bytes:
    """All that one command says."""
    done = subprocess.run([COMMAND, *words], capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done
    return done.stdout + done.stderr


def is_loaded(agent: Daemon) -> bool:
    """Whether it shows that clients are at work."""
    return (agent.get("concurrency", source="statement_time") or 0) > 1


def shows(agent: Daemon, digests: Collection[str]) -> bool:
    """Whether every class that was planted is on the page."""
    shown = {
        dict(labels)["digest"]
        for (name, labels) in agent.page.samples
        if name == f"{PREFIX}query_calls_total" and ("schema", SCHEMA) in labels
    }
    return shown >= set(digests)


def holds(history: Path, digests: Collection[str]) -> bool:
    """Whether every class that was planted is in the history."""
    names = " ".join(row.labels[-1] for row in rows(history, USES))
    return all(digest in names for digest in digests)


def texts(page: Page) -> list[str]:
    """Every text of a planted class on the page."""
    return [
        dict(labels)["digest_text"]
        for (name, labels) in page.samples
        if name == f"{PREFIX}query_digest_info" and ("schema", SCHEMA) in labels
    ]


@contextmanager
def observed(folder: Path, server: PrivateServer, account: Account, style: str) -> Iterator[Daemon]:
    """An agent that tells all it may, in one log format, with a history."""
    folder.mkdir()
    there = target(folder, server, account)
    with watching(
        folder,
        there,
        log={"level": "debug", "format": style},
        history={"path": str(folder / HISTORY)},
        classes={**CLASSES, "digest_text": WITH_TEXT[style]},
    ) as agent:
        yield agent


def has_names(place: str) -> bool:
    """Whether the texts of classes are to be had there, as the server normalises them."""
    style, what = place.split(maxsplit=1)
    if what == "web" or what in PROFILES:
        return WITH_TEXT[style]
    return what.endswith("--text")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", one_in_every_run("mysql"), indirect=True)
def test_no_secret_is_exposed(server: PrivateServer, tmp_path: Path) -> None:
    """No literal, comment, account or error text, by any output, in any file, at debug level."""
    account = least_account(server)
    words = {**PLANTED._asdict(), "own password": account.password}
    outputs: dict[str, bytes] = {}
    with ExitStack() as stack:
        digests = stack.enter_context(planting(server))
        agents = {
            style: stack.enter_context(observed(tmp_path / style, server, account, style))
            for style in WITH_TEXT
        }
        stack.enter_context(Clients(server, NAP, 3))
        for style, agent in agents.items():
            wait_until("load", partial(is_loaded, agent))
            lock_out(server, tmp_path / style, account, agent)
        for style, agent in agents.items():
            wait_until("the classes", partial(shows, agent, digests), 60)
            wait_until("their history", partial(holds, tmp_path / style / HISTORY, digests), 60)
            asked = (*PROFILES, *EXPORTS) if WITH_TEXT[style] else COMMANDS
            said = {"web": answers(agent.port), **command_outputs(tmp_path / style, asked)}
            said |= files(tmp_path / style, agent)
            outputs |= {f"{style} {place}": what for place, what in said.items()}
            found = texts(agent.page)
            assert len(found) == (len(digests) if WITH_TEXT[style] else 0)
            assert max(map(len, found), default=CUT) == CUT
    for style in WITH_TEXT:
        log = outputs[f"{style} log"] = (tmp_path / style / "agent.log").read_bytes()
        assert b"denied" in log
        assert b"http" in log
        assert b"mysql_headroom_concurrency" in outputs[f"{style} web"]
        for place in ("web", *PROFILES, *EXPORTS):
            assert any(digest.encode() in outputs[f"{style} {place}"] for digest in digests), place
    assert leaks(outputs, words) == []
    named = {place for place, said in outputs.items() if NAME.lower().encode() in said.lower()}
    assert named == {place for place in outputs if has_names(place)}
    assert not [style for style in WITH_TEXT if TAIL.encode() in outputs[f"{style} web"]]
    assert leaks({"a file": PLANTED.slow.encode()}, words) == ["slow in a file"]
