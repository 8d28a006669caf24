"""The main thread: what the service manager hears of targets, workers and reloads."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from web_clients import listening, snapshot

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.service.main_loop import MainLoop
from agent.service.systemd_notify import Notifier
from agent.support.scheduled_thread import Worker
from testbed.real.daemon import wait_until

NOW = 1_700_000_000.0


class Watched:
    """One target's snapshots, and a worker, as a main loop sees them."""

    def __init__(self) -> None:
        self.up: bool | None = None
        self.reloads = 0
        self.hold = threading.Event()
        self.worker = Worker("db", [self.tick], allowance=0.3)

    def tick(self, now: float) -> float:
        """Block while `hold` is set."""
        while self.hold.is_set():
            time.sleep(0.05)
        return now + 0.05

    def snapshots(self) -> list[Snapshot]:
        """As it is now."""
        return [Snapshot("db", NOW, 60.0, Health(up=self.up), None, AssessmentState())]

    def reload(self) -> list[str]:
        """Always refused."""
        self.reloads += 1
        return ["a mistake"]


@contextmanager
def supervised(tmp_path: Path, watched: Watched) -> Iterator[tuple[MainLoop, "Heard"]]:
    """A main loop in a thread of its own; it and the worker end with the block."""
    heard = Heard(tmp_path / "notify")
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"})
    found = MainLoop(lambda: [watched.worker], watched.snapshots, watched.reload, notifier)
    thread = threading.Thread(target=found.run)
    watched.worker.start()
    thread.start()
    try:
        yield found, heard
    finally:
        found.take_signal(signal.SIGTERM, None)
        thread.join()
        watched.worker.stop()
        watched.worker.join()
        heard.close()


class Heard:
    """What the service manager hears."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self._all: list[str] = []

    def now(self) -> list[str]:
        """Everything so far."""
        try:
            while True:
                self._all.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return self._all

    def close(self) -> None:
        """The end was announced."""
        assert "STOPPING=1" in self.now()
        self._socket.close()


def test_readiness_is_notified_once_every_target_was_tried(tmp_path: Path) -> None:
    """Not before; a target that is down counts as tried."""
    watched = Watched()
    with supervised(tmp_path, watched) as (_, heard):
        wait_until("signs of life", lambda: "WATCHDOG=1" in heard.now())
        assert "READY=1" not in heard.now()
        watched.up = False
        wait_until("it is ready", lambda: "READY=1" in heard.now())
        assert "STATUS=watching 1 server: 1 down (db: no answer); no trusted predictions" in (
            heard.now()
        )


def test_a_hanging_worker_stops_the_watchdog_pings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Status and log name it; the pings go on once it runs again."""
    watched = Watched()
    with supervised(tmp_path, watched) as (_, heard):
        wait_until("signs of life", lambda: "WATCHDOG=1" in heard.now())
        watched.hold.set()
        wait_until("hangs", lambda: any("STATUS=hangs: db;" in text for text in heard.now()))
        assert "a worker hangs" in caplog.text
        watched.hold.clear()
        count = heard.now().count("WATCHDOG=1")
        wait_until("signs of life", lambda: heard.now().count("WATCHDOG=1") > count)


def test_a_process_that_was_suspended_does_not_count_as_hanging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its loops have stood still together; one that is not on time then hangs."""
    watched = Watched()
    found = MainLoop(lambda: [watched.worker], watched.snapshots, watched.reload, Notifier({}))
    began = time.monotonic()
    found._check_workers(began)
    found._check_workers(began + 100.0)
    assert "hangs" not in caplog.text
    found._check_workers(began + 101.0)
    assert "a worker hangs" in caplog.text


def test_a_reload_is_notified_and_its_mistakes_are_returned(tmp_path: Path) -> None:
    """The status says that the configuration was refused."""
    watched = Watched()
    watched.up = True
    with supervised(tmp_path, watched) as (found, heard):
        wait_until("it is ready", lambda: "READY=1" in heard.now())
        assert found.request_reload() == ["a mistake"]
        wait_until(
            "the status", lambda: any("refused, see the log" in text for text in heard.now())
        )
        words = [text.split("\n")[0] for text in heard.now()]
        assert words.index("RELOADING=1") < len(words) - 1 - words[::-1].index("READY=1")
        assert watched.reloads == 1


def test_a_hanging_web_server_stops_the_watchdog_pings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its accepting loop is watched like a worker."""
    monkeypatch.setattr("agent.web.http_listener.ALLOWANCE", 2.0)
    monkeypatch.setattr("agent.web.http_listener.IDLE_SECONDS", 0.5)
    watched = Watched()
    with listening(snapshot(True)) as server, supervised(tmp_path, watched) as (found, heard):
        found.watch_loop(server)
        wait_until("signs of life", lambda: "WATCHDOG=1" in heard.now())
        assert not server.is_hanging(time.monotonic())
        server.shutdown()  # the loop has ended, as it would by a defect
        wait_until("hangs", lambda: any("STATUS=hangs: web;" in text for text in heard.now()))
        count = heard.now().count("WATCHDOG=1")
        time.sleep(1.5)
        assert heard.now().count("WATCHDOG=1") == count
