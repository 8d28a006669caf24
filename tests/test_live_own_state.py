"""What the running agent says of itself: its process and its history, as the machine sees them."""

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import FLAVOURS
from history_rows import is_sound, rows

from agent.demo.private_server import PrivateServer, free_port
from agent.history.row_kinds import INTERVALS
from testbed.real.daemon import Daemon, target, wait_until, watching

TICK = 0.02  # seconds by which two readings of a process's CPU may be off
GARBAGE = b"SQLite format 3\0" + bytes(range(256)) * 64


def is_between(agent: Daemon, metric: str, real: Callable[[], float], slack: float) -> None:
    """The page's value lies between those that the machine has before and after."""
    before, shown, after = real(), agent.get(metric), real()
    least, most = sorted((before, after))
    assert shown is not None
    assert least - slack <= shown <= most + slack, (metric, before, shown, after)


def size(path: Path) -> int:
    """Bytes of the file and its log."""
    parts = [path, path.with_name(f"{path.name}-wal")]
    return sum(part.stat().st_size for part in parts if part.exists())


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)  # the agent's own
def test_process_metrics_agree_with_the_machine(server: PrivateServer, tmp_path: Path) -> None:
    """CPU, memory, descriptors and start of the process; rows and size of the history."""
    path = tmp_path / "state" / "history.db"
    there = target(tmp_path, server)
    with watching(tmp_path, there, history={"path": str(path)}) as agent:
        wait_until("rows", lambda: agent.get("history_rows", kind="intervals"))
        process = psutil.Process(agent.process.pid)
        is_between(agent, "process_cpu_seconds_total", lambda: sum(process.cpu_times()[:2]), TICK)
        memory = process.memory_info().rss
        is_between(agent, "process_resident_memory_bytes", lambda: memory, memory / 5)
        is_between(agent, "process_open_fds", process.num_fds, 3)  # web clients
        assert agent.get("process_start_time_seconds") == pytest.approx(
            process.create_time(), abs=0.1
        )
        wait_until("its size", lambda: agent.get("history_size_bytes") == size(path))
        wait_until(
            "its rows",
            lambda: agent.get("history_rows", kind="intervals") == len(rows(path, INTERVALS)),
        )
        earlier = agent.pages[0].get("process_cpu_seconds_total")
        assert earlier is not None
        assert (agent.get("process_cpu_seconds_total") or 0) > earlier


def test_a_corrupt_history_is_renamed_at_the_start(tmp_path: Path) -> None:
    """An empty one takes its place; log and a metric report it."""
    path = tmp_path / "state" / "history.db"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(GARBAGE)
    gone = {"name": "gone", "port": free_port(), "user": "nobody", "timeout": "1s"}
    with watching(tmp_path, gone, history={"path": str(path)}) as agent:
        wait_until("it is told", lambda: agent.get("history_corrupt_files_total") == 1)
        wait_until("it writes", lambda: agent.get("history_write_success") == 1)
    [aside] = [p for p in path.parent.glob("history.db.corrupt-*") if "-wal" not in p.name]
    assert aside.read_bytes() == GARBAGE
    assert is_sound(path)
    [line] = [line for line in agent.log.splitlines() if "level=error" in line]
    assert aside.name in line
    assert "Traceback" not in agent.log
