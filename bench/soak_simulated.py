"""A soak by a simulated clock: what one target's monitor holds after weeks, in minutes.

    OPENBLAS_NUM_THREADS=1 python bench/soak_simulated.py [--days 21] [--every 3]

The daemon's own path, `TargetMonitor` and `Store`, whose ticks are taken in order of time by a
clock that jumps from one to the next. The session is one on a real server, and what is read in it
is simulated: a load that rises and falls with the day, query classes that come and go, restarts,
lost sessions, reloads. Numbers per row are of its end, rubbish aside. Ends with 1 where memory
still rises in the second half, when all windows are full, by more than the names of new classes.
"""

import argparse
import gc
import heapq
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import yaml
from prometheus_client import CollectorRegistry
from simulated_counters import DAY, HOUR, STEP, SimulatedServer

from agent.config.loader import load_config
from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.export.metrics_text import encode_metrics
from agent.export.page import render
from agent.export.snapshot_metrics import SnapshotCollector
from agent.history.history_file import size_on_disk
from agent.history.store import Store
from agent.service.target_monitor import TargetMonitor
from agent.support.memory_tuning import trim_heap, use_one_heap
from testbed.real.server_account import least_account
from testbed.real.server_programs import server_program
from testbed.trend_significance import refuse_too_few, trend

MIB = 2**20
NAME = 600  # bytes that the names and text of a class take that was met once; 60,000 are kept
ZERO = 1_700_000_000.0  # the Unix time at which the clock begins
SETTINGS: Mapping[str, Any] = {
    "collectors": {
        "status": {"interval": "5s"},
        "statements": {"interval": "5s"},
        "threads": {"interval": "30s"},
        "digests": {"interval": "20s"},
        "host": {"interval": "5s"},
    },
    "fit": {"interval": "5m", "window": "4d", "stale_after": "30m"},
    "classes": {"interval": "10m", "window": "1d"},
}
RETENTION = {"samples": "2d", "intervals": "4d", "fits": "4d", "classes": "4d"}
HEADER = ("days", "RSS", "objects", "history", "intervals", "samples", "known classes", "minutes")


class Clock:
    """Both clocks of the process, as far as our own modules ask for them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def time(self) -> float:
        """Unix seconds."""
        return ZERO + self.now

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """While the block lasts."""
        with patch.multiple(time, monotonic=self.monotonic, time=self.time):
            yield


class WatchedTarget:
    """One target watched by the clock; what happens to it from time to time."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._server = SimulatedServer(clock.monotonic)
        self.history = config.history.path or Path()
        self.store = Store(self.history, config.history, clock.time)
        self.monitor = self._new_monitor()
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(lambda: [self.monitor.snapshot], clock.time))
        self._registry = registry
        self._due: list[tuple[float, int]] = []

    def run(self, until: float) -> None:
        """Take every tick in its turn, up to that time of the clock."""
        ticks: list[Callable[[float], float]] = [
            lambda now: self.monitor.server_tick(now),
            lambda now: self.monitor.host_tick(now),
            lambda now: self.monitor.assessment_tick(now),
            lambda now: self.monitor.class_tick(now),
            self.store.tick,
            self._every(HOUR / 12, self._scrape),
            self._every(6 * HOUR, self._server.restart),
            self._every(DAY + HOUR, self._reload),
            self._lose_session,
        ]
        if not self._due:
            self._due = [(self._clock.now, number) for number in range(len(ticks))]
        while self._due[0][0] <= until:
            due, number = heapq.heappop(self._due)
            self._clock.now = max(self._clock.now, due)
            heapq.heappush(self._due, (ticks[number](self._clock.now), number))
        self._clock.now = until

    def close(self) -> None:
        """End it in order."""
        self.monitor.record_new_data(last=True)
        self.monitor.close()
        self.store.close()

    def _new_monitor(self) -> TargetMonitor:
        target = self._config.targets[0]
        return TargetMonitor(self._config, target, self._server.collectors, self.store)

    def _reload(self) -> None:
        """As the daemon does for a target whose settings have changed."""
        before = self.monitor
        before.close()
        before.record_new_data(last=True)
        self.monitor = self._new_monitor()
        self.monitor.take_over(before)

    def _lose_session(self, now: float) -> float:
        """Every seven hours, for two minutes."""
        self._server.is_lost = not self._server.is_lost
        return now + (120.0 if self._server.is_lost else 7 * HOUR)

    def _scrape(self) -> None:
        assert encode_metrics(self._registry, open_metrics=False)
        assert render([self.monitor.snapshot], self._clock.time())

    @staticmethod
    def _every(seconds: float, act: Callable[[], object]) -> Callable[[float], float]:
        def tick(now: float) -> float:
            act()
            return now + seconds

        return tick


def main() -> None:
    """Print a row for every so many days, then what grew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=21)
    parser.add_argument("--every", type=int, default=3)
    args = parser.parse_args()
    refuse_too_few(parser, args.days, args.every)
    logging.disable(logging.WARNING)
    use_one_heap()  # as the daemon does
    program = server_program("mysql") or server_program("mariadb")
    assert program, "no server here"
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateServer(program) as server,
        patch("agent.service.target_monitor.ASSESSMENT_SECONDS", STEP),
        patch("agent.history.store.POLL_SECONDS", STEP),
    ):
        config = _config(Path(folder), server)
        began, clock = time.monotonic(), Clock()
        elapsed = time.monotonic  # the real one
        print("| " + " | ".join(HEADER) + " |\n" + "|---" * len(HEADER) + "|")
        with clock.in_force():
            watched, rows = WatchedTarget(config, clock), []
            start = clock.now
            for day in range(args.every, args.days + 1, args.every):
                watched.run(start + DAY * day)
                rows.append(_row(watched, day, (elapsed() - began) / 60))
            watched.close()
    found = trend([(rss - NAME * known) / MIB for rss, known in rows[len(rows) // 2 :]])
    print(f"\nRSS in the second half, MiB, less {NAME} bytes a known class: {found}")
    sys.exit(not found.is_flat)


def _config(folder: Path, server: PrivateServer) -> Config:
    """A configuration file, as the daemon reads it."""
    user, password = least_account(server)
    (folder / "password").write_text(password)
    target = {
        "name": "db",
        "socket": server.socket,
        "user": user,
        "password_file": str(folder / "password"),
    }
    history = {"path": str(folder / "state" / "history.db"), "retention": RETENTION}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump({**SETTINGS, "history": history, "targets": [target]}))
    return load_config(file)


def _row(watched: WatchedTarget, day: int, minutes: float) -> tuple[int, int]:
    """Print what is held; answers bytes of memory and how many classes are known."""
    gc.collect()
    trim_heap(0.0)  # as the daemon does
    rss, objects = psutil.Process().memory_info().rss, len(gc.get_objects())
    file, rows = size_on_disk(watched.history), watched.store.state.rows
    classes = watched.monitor.snapshot.classes
    known = classes.known if classes else 0
    cells = (
        f"{day}",
        f"{rss / MIB:.1f} MiB",
        f"{objects:,}",
        f"{file / MIB:.2f} MiB",
        f"{rows.get('intervals', 0):,}",
        f"{rows.get('samples', 0):,}",
        f"{known:,}",
        f"{minutes:.1f}",
    )
    print("| " + " | ".join(cells) + " |", flush=True)
    return rss, known


if __name__ == "__main__":
    main()
