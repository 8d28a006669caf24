"""A soak on real servers: what the daemon holds after an hour and a half of load and trouble.

    python bench/soak.py [--minutes 90] [--every 10]

MySQL and MariaDB, where they are there, under a load of changing strength in hundreds of classes;
one daemon of its own process, scraped every 5 s; a calendar of restarts, crashes, freezes, broken
sessions, changed and refused configurations and silent web clients. Windows of five minutes and
ten; the history keeps no more. The heap finds its shape within an hour. The last column is the
servers' sessions of the agent's account. Ends with 1 where memory rises in the last third.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from soak_calendar import CALENDAR, DaemonState, Soak, loaded, repeated

from agent.demo.private_server import PrivateServer
from testbed.real.daemon import COMMAND, Daemon, fetch, target, wait_until, write_config
from testbed.real.server_programs import server_program
from testbed.trend_significance import refuse_too_few, trend

MIB = 2**20
LOOK_EVERY, SCRAPE_EVERY = 7.0, 5.0  # seconds; the heap is given back every ten
SETTINGS: Mapping[str, Any] = {
    "collectors": {},
    "fit": {"interval": "5s", "window": "10m"},
    "classes": {"interval": "15s", "window": "5m"},
}
RETENTION = {"samples": "5m", "intervals": "10m", "fits": "10m", "classes": "10m"}
HEADER = ("minutes", "RSS", "RSS at most", "descriptors", "threads", "history", "CPU", "sessions")


def main() -> None:
    """Print a row for every so many minutes, then what grew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--every", type=float, default=10)
    args = parser.parse_args()
    refuse_too_few(parser, args.minutes, args.every, 60 * args.every / LOOK_EVERY)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(server) for server in _servers()]
        for server in servers:
            stack.enter_context(loaded(server))
        soak = stack.enter_context(_daemon(folder, servers))
        stack.enter_context(repeated(SCRAPE_EVERY, lambda: fetch(soak.agent.port)))
        for first, every, act in CALENDAR:
            stack.enter_context(repeated(every, partial(act, soak), first))
        looks = list(_table(soak, args.minutes, args.every))
        page = soak.agent.page
    for name in ("connects_total", "server_restarts_total", "collector_skipped_total"):
        print(f"{name} since its watch began: {sum(page.all(name)):.0f}")
    print(f"defects (worker_failures_total): {sum(page.all('worker_failures_total')):.0f}")
    found = trend([look.rss / MIB for look in looks[-(len(looks) // 3) :]])
    print(f"RSS in the last third, MiB: {found}")
    sys.exit(not found.is_flat)


def _table(soak: Soak, minutes: float, every: float) -> Iterator[DaemonState]:
    """Print the rows; yields every look."""
    print("| " + " | ".join(HEADER) + " |\n" + "|---" * len(HEADER) + "|")
    began, cpu = time.monotonic(), soak.look().cpu
    for number in range(1, round(minutes / every) + 1):
        looks = []
        while time.monotonic() < began + 60 * every * number:
            time.sleep(LOOK_EVERY)
            looks.append(soak.look())
        rss = median(look.rss for look in looks)
        share = (looks[-1].cpu - cpu) / (60 * every)
        cpu = looks[-1].cpu
        cells = (
            f"{every * (number - 1):g} to {every * number:g}",
            f"{rss / MIB:.1f} MiB",
            f"{max(look.rss for look in looks) / MIB:.1f} MiB",
            _range(look.descriptors for look in looks),
            _range(look.threads for look in looks),
            f"{looks[-1].history / MIB:.2f} MiB",
            f"{100 * share:.1f} %",
            _range(look.sessions for look in looks),
        )
        print("| " + " | ".join(cells) + " |", flush=True)
        yield from looks


def _range(numbers: Iterator[int]) -> str:
    """The median, and the extremes."""
    ordered = sorted(numbers)
    return f"{ordered[len(ordered) // 2]} ({ordered[0]} to {ordered[-1]})"


def _servers() -> Iterator[PrivateServer]:
    """One of each flavour that is there."""
    for flavour in ("mysql", "mariadb"):
        program = server_program(flavour)
        if program is not None:
            yield PrivateServer(program)


@contextmanager
def _daemon(folder: Path, servers: list[PrivateServer]) -> Iterator[Soak]:
    """The agent as its users run it, ready."""
    history = {"path": str(folder / "state" / "history.db"), "retention": RETENTION}
    targets = [{**target(folder, s, name=s.flavour), "timeout": "2s"} for s in servers]
    file, port = write_config(folder, *targets, **SETTINGS, history=history)
    log = folder / "agent.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen([COMMAND, "run", "--config.file", file], stderr=stderr)
    agent = Daemon(process, port, log, len(targets))
    try:
        wait_until("the agent is ready", agent.is_ready)
        yield Soak(agent, file, servers)
    finally:
        process.terminate()
        print(f"ended with {process.wait(20)}; tracebacks: {agent.log.count('Traceback')}")


if __name__ == "__main__":
    main()
