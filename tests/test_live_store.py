"""The agent on a real server, killed and started again: it goes on from where it was."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from disks import fill, small_disk
from history_rows import is_sound, rows
from live import COMMAND, Clients, Daemon, root, target, wait_until, write_config

from agent.demo.server import PrivateServer
from agent.store.kinds import FITS, INTERVALS, SAMPLES, Row

FIT = {"interval": "2s"}
ENOUGH = 6  # intervals before the end
PATIENCE = 60.0  # seconds, for six intervals on a busy machine
THROUGHPUT = [column.name for column in INTERVALS.columns].index("throughput")
POINTS = [column.name for column in FITS.columns].index("points")


@contextmanager
def started(folder: Path, file: Path, port: int) -> Iterator[Daemon]:
    """The agent, ready; it is gone at the end of the block."""
    log = folder / "agent.log"
    with log.open("ab") as stderr:
        process = subprocess.Popen([COMMAND, "run", "--config.file", file], stderr=stderr)
    agent = Daemon(process, port, log, 1)
    try:
        wait_until("the agent is ready", agent._is_ready, PATIENCE)
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


def test_a_full_disk_stops_no_sampling(mysql_server: PrivateServer, tmp_path: Path) -> None:
    """It goes on watching and fitting, says what fails, and writes all of it when there is room."""
    with (
        small_disk(tmp_path / "disk", "8m") as disk,
        Clients(mysql_server, "SELECT SLEEP(0.05)", 3),
    ):
        path = disk / "history.db"
        history = {"path": str(path)}
        file, port = write_config(tmp_path, target(tmp_path, mysql_server), history=history)
        with started(tmp_path, file, port) as agent:
            wait_until("a write", lambda: agent.get("history_write_success") == 1, PATIENCE)
            fill(disk / "ballast")
            wait_until("it says so", lambda: agent.get("history_write_success") == 0, PATIENCE)
            failures = agent.get("history_write_failures_total", kind="full") or 0
            assert failures >= 1
            kept = agent.get("intervals_kept") or 0
            wait_until(
                "it goes on", lambda: (agent.get("intervals_kept") or 0) >= kept + 3, PATIENCE
            )
            assert agent.get("up") == 1
            (disk / "ballast").unlink()
            wait_until("it writes", lambda: agent.get("history_write_success") == 1, PATIENCE)
            assert agent.get("history_dropped_total") == 0
            end(agent, signal.SIGTERM)
        ends = [row.at for row in rows(path, INTERVALS)]
        assert len(ends) >= kept + 3
        assert is_sound(path)
    assert agent.log.count("level=error") == 1, agent.log


def new_since(found: list[Row], before: int) -> list[Row]:
    """The rows after that time."""
    return [row for row in found if row.at > before]


def test_it_goes_on_from_where_it_was(server: PrivateServer, tmp_path: Path) -> None:
    """After SIGKILL and SIGTERM the first fit has the whole window; counters begin at zero."""
    path = tmp_path / "state" / "history.db"
    history = {"path": str(path), "retention": {"samples": "1d"}}
    file, port = write_config(tmp_path, target(tmp_path, server), fit=FIT, history=history)
    with Clients(server, "SELECT SLEEP(0.05)", 3):
        for number in (signal.SIGKILL, signal.SIGTERM):
            with started(tmp_path, file, port) as agent:
                kept = agent.get("intervals_kept") or 0
                lose_session(server, agent)
                wait_until(
                    "intervals",
                    lambda: (agent.get("intervals_kept") or 0) >= kept + ENOUGH,  # noqa: B023
                    PATIENCE,
                )
                shown = agent.get("intervals_kept") or 0
                end(agent, number)
            committed, samples = rows(path, INTERVALS), rows(path, SAMPLES)
            assert len(committed) >= (shown if number is signal.SIGTERM else ENOUGH // 2)
            with started(tmp_path, file, port) as agent:
                first = agent.page
                assert (first.get("connects_total") or 0) <= 1
                assert first.get("server_restarts_total") in (None, 0)
                assert first.all("collector_failures_total", kind="lost") == []
                wait_until(
                    "the window is back",
                    lambda: (agent.get("intervals_kept") or 0) > busy(committed),  # noqa: B023
                    PATIENCE,
                )
                end(agent, signal.SIGTERM)
            assert rows(path, INTERVALS)[: len(committed)] == committed
            assert moments(samples) < moments(rows(path, SAMPLES))
            assert_whole_at_once(path, committed)
    assert is_sound(path)
    assert "Traceback" not in agent.log


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
