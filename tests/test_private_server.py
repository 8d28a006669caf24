"""A private server does what a test or the demo asks of it, and leaves nothing behind."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest
from conftest import ServerFactory

from agent.demo.os_user import ServerUser
from agent.demo.private_server import (
    SOCKET_PATH_LIMIT,
    PrivateServer,
    ServerError,
    _save_template,
    find_server,
    free_port,
)
from testbed.real.server_account import least_account
from testbed.real.server_faults import freeze_server, restart_server, thaw_server
from testbed.real.server_programs import Release, missing


def ask(server: PrivateServer, query: str) -> object:
    """The first value of the answer, asked as root."""
    connection = server.connect_as_root()
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
            return row[0] if row else None
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether anybody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_alive(pid: int) -> bool:
    """Whether the process still runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_it_reports_its_own_identity(server: PrivateServer) -> None:
    """Flavour, version, port and folder are those of the server that answers."""
    assert str(ask(server, "SELECT VERSION()")).startswith(server.version)
    assert ("MariaDB" in str(ask(server, "SELECT VERSION()"))) == (server.flavour == "mariadb")
    assert ask(server, "SELECT @@port") == server.port
    assert Path(str(ask(server, "SELECT @@datadir"))) == server.datadir
    assert listens(server.port)


def test_performance_schema_is_on_by_default(
    server: PrivateServer, mariadb_without_schema: PrivateServer
) -> None:
    """Digests are counted, and it can be off."""
    ask(server, "SELECT 40 + 2")
    digests = "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest"
    assert ask(server, f"{digests} WHERE DIGEST_TEXT LIKE 'SELECT%'")
    assert ask(mariadb_without_schema, "SELECT @@performance_schema") == 0


def test_mysql_measures_cpu_time(mysql_server: PrivateServer) -> None:
    """Each digest has its CPU time from the start."""
    query = "SELECT BENCHMARK(1000000, 1 + 1)"
    ask(mysql_server, query)
    table = "performance_schema.events_statements_summary_by_digest"
    assert ask(mysql_server, f"SELECT MAX(SUM_CPU_TIME) FROM {table}")


def test_the_least_account_can_only_read(server: PrivateServer) -> None:
    """By the README's grants it sees performance_schema and no table of the users'."""
    account = least_account(server)
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user=account.user, password=account.password
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM performance_schema.threads")
            cursor.execute("SHOW GLOBAL STATUS")
            with pytest.raises(pymysql.MySQLError, match="denied"):
                cursor.execute("SELECT * FROM mysql.user")
    finally:
        connection.close()


NOBODY = 65534
STANDARD_ACCOUNTS = ("root", "mysql", "mariadb.sys", "")


def attacked(server: PrivateServer) -> list[str]:
    """The answers to another local user who tries each account that a new server may have."""
    if os.geteuid() != 0:
        missing("other user", "only root can be one")
    ways: list[dict[str, Any]] = [{"unix_socket": server.socket}]
    if server.port:
        ways.append({"host": "127.0.0.1", "port": server.port})
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def attack() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        theirs.send([_knock(way, user) for way in ways for user in STANDARD_ACCOUNTS])

    other = multiprocessing.get_context("fork").Process(target=attack)
    other.start()
    answers: list[str] = ours.recv() if ours.poll(60) else []
    other.join()
    assert len(answers) == len(ways) * len(STANDARD_ACCOUNTS)
    return answers


def _knock(way: dict[str, Any], user: str) -> str:
    try:
        pymysql.connect(user=user, connect_timeout=5, **way).close()
    except (pymysql.MySQLError, OSError) as error:
        return str(error)
    return "came in"


# Accounts for other hosts, but for the account that other tests make in a shared server.
STRANGERS = "SELECT COUNT(*) FROM mysql.user WHERE Host <> 'localhost' AND User <> 'headroom'"


def test_other_local_users_have_no_access(server: PrivateServer) -> None:
    """Without a password: not over TCP, nor by socket or folder."""
    by_socket, by_network = attacked(server)[:4], attacked(server)[4:]
    assert all("Permission denied" in answer for answer in by_socket), by_socket
    assert all("denied" in answer or "not allowed" in answer for answer in by_network), by_network
    assert ask(server, STRANGERS) == 0


def test_its_root_cannot_write_files(server: PrivateServer, tmp_path: Path) -> None:
    """INTO OUTFILE writes nothing, wherever it is aimed at."""
    tmp_path.chmod(0o777)
    for place in (tmp_path, Path("/tmp"), server.datadir):
        target = place / f"written-by-{server.pid}"
        with pytest.raises(pymysql.MySQLError, match="secure"):
            ask(server, f"SELECT 'x' INTO OUTFILE '{target}'")
        assert not target.exists()


def test_without_a_network_and_a_name(
    start_server: Callable[..., PrivateServer], release: Release
) -> None:
    """As in the demo: nothing listens on TCP, and root's server has a user without a name."""
    with start_server(release, network=False, unprivileged=True) as server:
        process = psutil.Process(server.pid)
        reachable = (
            ServerUser.choose(server.folder, server.program, unprivileged=True).uid is not None
        )
        assert (process.uids().effective != os.geteuid()) == reachable
        assert not process.net_connections("tcp")
        assert ask(server, "SELECT @@skip_networking") == 1
        restart_server(server)
        assert ask(server, "SELECT 1") == 1
        answers = attacked(server)
    assert all("Permission denied" in answer for answer in answers), answers


def test_a_restart_keeps_port_and_data(private_server: ServerFactory, release: Release) -> None:
    """After an orderly restart, in a new process."""
    server = private_server(release, log_bin=True)
    ask(server, "CREATE DATABASE kept")
    before = server.pid, server.port
    restart_server(server)
    assert server.pid != before[0]
    assert server.port == before[1]
    assert listens(server.port)
    assert ask(server, "SHOW DATABASES LIKE 'kept'") == "kept"
    assert ask(server, "SELECT @@log_bin") == 1


def test_a_killed_server_can_be_started_again(
    private_server: ServerFactory, release: Release
) -> None:
    """After kill nothing listens and there is no pid; after start it recovers its data."""
    server = private_server(release)
    ask(server, "CREATE DATABASE kept")
    server.kill()
    assert not listens(server.port)
    assert not server.is_running
    with pytest.raises(ServerError, match="not running"):
        _ = server.pid
    server.start()
    assert ask(server, "SHOW DATABASES LIKE 'kept'") == "kept"


def test_a_frozen_server_is_silent_until_it_thaws(
    private_server: ServerFactory, release: Release
) -> None:
    """Frozen it accepts a connection without an answer; thawed it answers; frozen it is closed."""
    server = private_server(release)
    freeze_server(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        thaw_server(server)
        client.settimeout(10)
        assert client.recv(1)
    freeze_server(server)
    server.close()
    assert not server.is_running


def test_a_server_that_cannot_start_reports_why(
    start_server: Callable[..., PrivateServer], release: Release
) -> None:
    """An invalid option ends in an error with the server's own words, and nothing is left."""
    server = start_server(release, options=["--no-such-option=1"])
    with pytest.raises(ServerError, match=r"ended with exit code \d+: .*no-such-option"):
        server.__enter__()
    assert not server.is_running
    assert not server.folder.exists()


def test_an_exception_leaves_nothing_behind(
    start_server: Callable[..., PrivateServer], release: Release
) -> None:
    """Even if the block is interrupted: no process, no port, no folder."""
    server = start_server(release)
    pids: list[int] = []

    def interrupted() -> None:
        with server:
            pids.append(server.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not is_alive(pids[0])
    assert not listens(server.port)
    assert not server.folder.exists()


def test_a_free_port_is_not_ephemeral() -> None:
    """It is below those that the kernel gives to clients, which could take it before a listener."""
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    ports = [free_port() for _ in range(20)]
    assert 1024 < min(ports) <= max(ports) < int(first)
    assert not any(map(listens, ports))


def test_concurrent_templates_stay_complete(tmp_path: Path) -> None:
    """Of two processes that save a new data directory at once, one does."""
    template = tmp_path / "template"
    for name in ("first", "second"):
        data = tmp_path / name
        data.mkdir()
        (data / "ibdata1").write_text(name)
        _save_template(data, template)
    assert (template / "ibdata1").read_text() == "first"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "template"}


START_AND_WAIT = """
import sys, time
from pathlib import Path
from agent.demo.private_server import PrivateServer, find_server
tree = Path(sys.argv[1]) if sys.argv[1] else None
with PrivateServer(find_server(sys.argv[2], tree), template=Path(sys.argv[3])) as server:
    print(server.pid, server.port, server.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_killing_its_parent_leaves_nothing_behind(
    start_server: Callable[..., PrivateServer], templates: Path, sent: signal.Signals
) -> None:
    """Not even SIGKILL of that program leaves a server, a port or a folder."""
    with start_server("mariadb") as ours:  # for its program, or to skip
        words = [str(ours.program.tree or ""), "mariadb", str(templates / "mariadb")]
    starter = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, *words], stdout=subprocess.PIPE, text=True
    )
    with starter:
        assert starter.stdout is not None
        pid, port, folder = starter.stdout.readline().split()
        assert listens(int(port))
        starter.send_signal(sent)
    deadline = time.monotonic() + 10
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(int(pid))
    assert not listens(int(port))
    assert not Path(folder).exists()


def test_it_outlives_the_thread_that_started_it(
    start_server: Callable[..., PrivateServer],
) -> None:
    """A server belongs to the process that started it, not to one of its threads."""
    server = start_server("mariadb")
    thread = threading.Thread(target=server.__enter__)
    thread.start()
    thread.join()
    try:
        assert ask(server, "SELECT 1") == 1
    finally:
        server.close()


def test_a_long_temporary_folder_leaves_room_for_the_socket(
    start_server: Callable[..., PrivateServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path has at most 108 bytes, wherever TMPDIR is."""
    long = tmp_path / ("x" * SOCKET_PATH_LIMIT)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with start_server("mariadb") as server:
        assert len(os.fsencode(server.socket)) <= SOCKET_PATH_LIMIT
        assert ask(server, "SELECT 1") == 1
    assert not list(long.iterdir())


def test_a_folder_without_a_server_is_skipped(tmp_path: Path) -> None:
    """Looking into an empty one finds nothing and fails nothing."""
    assert find_server("mysql", tmp_path) is None


def test_a_server_for_another_architecture_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that this machine cannot run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("agent.demo.server_installation.SERVER_FOLDERS", ())
    (tmp_path / "mysqld").write_text("no program")
    (tmp_path / "mysqld").chmod(0o755)
    assert find_server() is None
