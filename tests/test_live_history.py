"""The agent on a real server, killed and started again: it goes on from where it was."""

import shutil
import signal
import sqlite3
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from class_recording import connected
from conftest import ServerFactory, one_in_every_run
from disks import fill, remount, small_disk
from history_rows import is_sound, rows

from agent.demo.private_server import PrivateServer
from agent.history.row_kinds import FITS, INTERVALS, SAMPLES, Row
from agent.history.server_identity import server_identity
from testbed.real.clients import Clients, root
from testbed.real.daemon import COMMAND, PREFIX, Daemon, Page, target, wait_until, write_config
from testbed.real.server_faults import restart_server
from testbed.real.server_programs import Release

Servers = tuple[PrivateServer, PrivateServer]
FIT = {"interval": "2s"}
AT_WORK = 3  # clients with a statement under way
ENOUGH = 6  # intervals before the end
PATIENCE = 60.0  # seconds, for six intervals on a busy machine
THROUGHPUT = [column.name for column in INTERVALS.columns].index("throughput")
FIRST_VERSION = Path(__file__).with_name("fixtures") / "history" / "version-1.sql"
POINTS = [column.name for column in FITS.columns].index("points")


@contextmanager
def started(folder: Path, file: Path, port: int, targets: int = 1) -> Iterator[Daemon]:
    """The agent, ready; it is gone at the end of the block."""
    log = folder / "agent.log"
    with log.open("ab") as stderr:
        process = subprocess.Popen([COMMAND, "run", "--config.file", file], stderr=stderr)
    agent = Daemon(process, port, log, targets)
    try:
        wait_until("the agent is ready", agent.is_ready, PATIENCE)
        yield agent
    finally:
        process.kill()
        process.wait()


def end(agent: Daemon, number: signal.Signals) -> None:
    """End it so, and wait until it has ended."""
    agent.process.send_signal(number)
    assert agent.process.wait(20) == (0 if number is signal.SIGTERM else -number)


def lose_session(server: PrivateServer, agent: Daemon) -> None:
    """Break the agent's session off, so that its counters are not at their first values."""
    with root(server) as ask:
        query = "SELECT id FROM information_schema.processlist WHERE user = 'headroom'"
        found = wait_until("a session", lambda: ask(query), PATIENCE)
        for (number,) in found:
            ask(f"KILL {number}")
    wait_until("another session", lambda: (agent.get("connects_total") or 0) >= 2, PATIENCE)
    wait_until("it is up", lambda: agent.get("up") == 1, PATIENCE)


@pytest.fixture
def loaded(mysql_server: PrivateServer, mariadb_server: PrivateServer) -> Iterator[Servers]:
    """A server of each flavour, with clients."""
    servers = (mysql_server, mariadb_server)
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(Clients(server, "SELECT SLEEP(0.05)", 3))
        yield servers


def kept(agent: Daemon) -> float:
    """How many intervals there are of each target, at least."""
    return min(agent.page.all("intervals_kept"), default=0)


def go_on(agent: Daemon) -> None:
    """Both servers are watched, with or without a disk."""
    before = kept(agent)
    wait_until("it goes on", lambda: kept(agent) >= before + 3, PATIENCE)
    assert agent.page.all("up") == [1, 1]


def has_no_hole(path: Path) -> bool:
    """Whether each target's intervals follow each other, second by second."""
    ends: dict[str, list[int]] = {}
    for row in rows(path, INTERVALS):
        ends.setdefault(row.labels[0], []).append(round(row.at / 1000))
    holes = [b - a for times in ends.values() for a, b in pairwise(times) if b - a != 1]
    return len(ends) == 2 and not holes


def identity(server: PrivateServer) -> str:
    """What the history calls the server by."""
    with connected(server) as connection:
        return server_identity(connection.variables)


def test_another_data_directory_at_the_port_is_another_server(
    private_server: ServerFactory, release: Release
) -> None:
    """MariaDB's server_uid is made of the port and a network card: both have the same."""
    first = private_server(release)
    known = identity(first)
    restart_server(first)
    assert identity(first) == known
    first.stop()
    second = private_server(release)
    second.stop()
    second.port = first.port
    second.start()
    assert identity(second) != known


def test_a_full_disk_stops_no_sampling(loaded: Servers, tmp_path: Path) -> None:
    """Assessments go on, the failure is reported, and all is written once there is space."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        path = disk / "history.db"
        targets = [target(tmp_path, server, name=server.flavour) for server in loaded]
        file, port = write_config(tmp_path, *targets, history={"path": str(path)})
        with started(tmp_path, file, port, len(targets)) as agent:
            wait_until("a write", lambda: agent.get("history_write_success") == 1, PATIENCE)
            fill(disk / "ballast")
            wait_until("it says so", lambda: agent.get("history_write_success") == 0, PATIENCE)
            assert (agent.get("history_write_failures_total", kind="full") or 0) >= 1
            go_on(agent)
            shown = kept(agent)
            (disk / "ballast").unlink()
            wait_until("it writes", lambda: agent.get("history_write_success") == 1, PATIENCE)
            assert agent.get("history_dropped_total") == 0
            end(agent, signal.SIGTERM)
        assert len(rows(path, INTERVALS)) >= 2 * shown
        assert has_no_hole(path)
        assert is_sound(path)
    assert agent.log.count("level=error") == 1, agent.log


def test_a_read_only_disk_stops_no_sampling(loaded: Servers, tmp_path: Path) -> None:
    """Stored rows are read back; new ones wait, and are written once it is writable."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        path = disk / "history.db"
        targets = [target(tmp_path, server, name=server.flavour) for server in loaded]
        file, port = write_config(tmp_path, *targets, history={"path": str(path)})
        with started(tmp_path, file, port, len(targets)) as agent:
            wait_until("intervals", lambda: kept(agent) >= ENOUGH, PATIENCE)
            end(agent, signal.SIGTERM)
        before = len(rows(path, INTERVALS))
        remount(disk, "ro")
        with started(tmp_path, file, port, len(targets)) as agent:
            wait_until("it says so", lambda: agent.get("history_write_success") == 0, PATIENCE)
            assert (agent.get("history_write_failures_total", kind="read_only") or 0) >= 1
            wait_until("the window is back", lambda: kept(agent) > ENOUGH, PATIENCE)
            go_on(agent)
            shown = kept(agent)
            remount(disk, "rw")
            wait_until("it writes", lambda: agent.get("history_write_success") == 1, PATIENCE)
            assert agent.get("history_dropped_total") == 0
            end(agent, signal.SIGTERM)
        assert len(rows(path, INTERVALS)) >= max(2 * shown, before + 6)
        assert is_sound(path)
    assert agent.log.count("level=error") == 1, agent.log


def test_a_target_renamed_while_running_keeps_its_window(
    mariadb_server: PrivateServer, tmp_path: Path
) -> None:
    """Its rows have the new name, and none is left under the old one."""
    history = {"path": str(tmp_path / "state" / "history.db")}
    there = target(tmp_path, mariadb_server)
    file, port = write_config(tmp_path, there, history=history)
    with (
        Clients(mariadb_server, "SELECT SLEEP(0.05)", 3),
        started(tmp_path, file, port) as agent,
    ):
        wait_until("intervals", lambda: kept(agent) >= ENOUGH, PATIENCE)
        file.write_text(file.read_text().replace("name: db\n", "name: primary\n"))
        before = kept(agent)
        agent.process.send_signal(signal.SIGHUP)
        known = partial(agent.get, "intervals_kept", target="primary")
        wait_until("its window", lambda: (known() or 0) >= before, PATIENCE)
        end(agent, signal.SIGTERM)
    assert {row.labels[0] for row in rows(Path(history["path"]), INTERVALS)} == {"primary"}
    assert "target renamed: its history continues under the new name" in agent.log


def without_power(agent: Daemon, path: Path) -> list[Row]:
    """The file and its log as they are at one instant, without the memory of the process."""
    cut = path.with_name("cut")
    agent.process.send_signal(signal.SIGSTOP)
    itself = psutil.Process(agent.process.pid)
    wait_until("it is halted", lambda: itself.status() == psutil.STATUS_STOPPED)
    cut.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(path.with_name(path.name + ending), cut)
    end(agent, signal.SIGKILL)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    for file in cut.iterdir():
        file.replace(path.with_name(file.name))
    return rows(path, INTERVALS)


def on_a_full_disk(agent: Daemon, path: Path) -> list[Row]:
    """Killed when there is no room left, nor will there be any when it starts."""
    fill(path.with_name("ballast"))
    wait_until("it says so", lambda: agent.get("history_write_success") == 0, PATIENCE)
    end(agent, signal.SIGKILL)
    return rows(path, INTERVALS)


def before_an_upgrade(agent: Daemon, path: Path) -> list[Row]:
    """Its rows in a file as the first version made it."""
    end(agent, signal.SIGTERM)
    committed = rows(path, INTERVALS)
    later = path.replace(path.with_name("later.db"))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_VERSION.read_text())
        connection.execute("ATTACH ? AS later", [str(later)])
        for table in ("fit", "interval", "target"):
            connection.execute(f"DELETE FROM main.{table}")
        for table in ("target", "interval", "fit"):
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM later.{table}")
        connection.commit()
    return committed


@pytest.mark.parametrize("server", one_in_every_run("mariadb"), indirect=True)
@pytest.mark.parametrize("way", [without_power, on_a_full_disk, before_an_upgrade])
def test_the_window_is_read_back_after_any_end(
    server: PrivateServer, tmp_path: Path, way: Callable[[Daemon, Path], list[Row]]
) -> None:
    """The first assessment has all that was committed, within two intervals; then it writes."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        path = disk / "history.db"
        there = target(tmp_path, server)
        file, port = write_config(tmp_path, there, fit=FIT, history={"path": str(path)})
        with Clients(server, "SELECT SLEEP(0.05)", AT_WORK):
            with started(tmp_path, file, port) as agent:
                wait_until("intervals", lambda: kept(agent) >= ENOUGH, PATIENCE)
                committed = way(agent, path)
            assert len(committed) >= ENOUGH // 2
            with started(tmp_path, file, port) as agent:
                first = wait_until("a fit", partial(kept, agent), PATIENCE)
                assert busy(committed) <= first <= busy(committed) + 2
                (disk / "ballast").unlink(missing_ok=True)
                wait_until("it writes", lambda: agent.get("history_write_success") == 1, PATIENCE)
                wait_until("more", lambda: len(rows(path, INTERVALS)) > len(committed), PATIENCE)
                end(agent, signal.SIGTERM)
        assert rows(path, INTERVALS)[: len(committed)] == committed
        assert is_sound(path)
    assert "Traceback" not in agent.log


def new_since(found: list[Row], before: int) -> list[Row]:
    """The rows after that time."""
    return [row for row in found if row.at > before]


@pytest.mark.parametrize("server", one_in_every_run("mysql"), indirect=True)
def test_a_restarted_agent_continues_its_window(server: PrivateServer, tmp_path: Path) -> None:
    """After SIGKILL and SIGTERM; counters, those of query classes too, begin at zero."""
    path = tmp_path / "state" / "history.db"
    history = {"path": str(path), "retention": {"samples": "1d"}}
    options = {"fit": FIT, "history": history, "classes": {"interval": "5s"}}
    file, port = write_config(tmp_path, target(tmp_path, server), **options)
    with Clients(server, "SELECT SLEEP(0.05)", AT_WORK) as clients:
        for number in (signal.SIGKILL, signal.SIGTERM):
            with started(tmp_path, file, port) as agent:
                before = kept(agent)
                lose_session(server, agent)
                wait_until("intervals", lambda: kept(agent) >= before + ENOUGH, PATIENCE)  # noqa: B023
                wait_until("the load's class", partial(calls, agent), PATIENCE)
                assert set(beyond_the_first(agent.page)) >= {"connects", "collector_failures"}
                shown = agent.get("intervals_kept") or 0
                end(agent, number)
            committed, samples = rows(path, INTERVALS), rows(path, SAMPLES)
            assert len(committed) >= (shown if number is signal.SIGTERM else ENOUGH // 2)
            done = clients.done
            with started(tmp_path, file, port) as agent:
                assert beyond_the_first(agent.page) == {}
                first = wait_until("a fit", partial(kept, agent), PATIENCE)
                assert busy(committed) <= first <= busy(committed) + 2
                counted = wait_until("the load's class", partial(calls, agent), PATIENCE)
                assert 0 < counted <= clients.done - done + AT_WORK
                end(agent, signal.SIGTERM)
            assert rows(path, INTERVALS)[: len(committed)] == committed
            assert moments(samples) < moments(rows(path, SAMPLES))
            assert_whole_at_once(path, committed)
    assert is_sound(path)
    assert "Traceback" not in agent.log


def calls(agent: Daemon) -> float:
    """Statements of the greatest class since the agent's start; 0 where there is none yet."""
    return max(agent.page.all("query_calls_total"), default=0.0)


def beyond_the_first(page: Page) -> dict[str, float]:
    """The agent's counters that are greater than the first moments of a life can make them.

    The server's own count of queries is as old as the server.
    """
    sums: dict[str, float] = defaultdict(float)
    for (name, _), value in page.samples.items():
        if name.endswith("_total") and name != f"{PREFIX}queries_total":
            sums[name.removeprefix(PREFIX).removesuffix("_total")] += value
    at_once = {"connects": 1.0, "worker_late_seconds": 5.0, "process_cpu_seconds": 30.0}
    return {name: value for name, value in sums.items() if value > at_once.get(name, 0.0)}


def busy(found: list[Row]) -> int:
    """How many intervals had a throughput: those that are assessed."""
    return sum(1 for row in found if isinstance(x := row.cells[THROUGHPUT], float) and x > 0)


def moments(found: list[Row]) -> set[tuple[tuple[str, ...], int]]:
    """Which rows these are."""
    return {(row.labels, row.at) for row in found}


def assert_whole_at_once(path: Path, committed: list[Row]) -> None:
    """Within two intervals of the new life a fit was made of all that was committed before."""
    last = committed[-1].at
    second = new_since(rows(path, INTERVALS), last)[:2][-1]
    fits = [fit for fit in new_since(rows(path, FITS), last) if fit.at <= second.at]
    points = [fit.cells[POINTS] for fit in fits]
    assert any(isinstance(given, float) and given >= busy(committed) for given in points)
