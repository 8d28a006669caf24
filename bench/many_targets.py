"""One agent of many targets: its share of a core, how late it is, the memory of each target.

    python bench/many_targets.py [--targets 200] [--interval 5] [--minutes 4] [--down 50]
                                 [--hours 24] [--classes 20]

One real MySQL stands behind all targets, which the agent does not know: each has a session, a
window, a day of history and query classes of its own. As with servers on other hosts, `host` is off
and the server's process is not visible: the agent runs in a PID namespace of its own (as root).
Otherwise each target would read the states of all threads of the one server, those of all sessions.
First one target, for its memory, then all of them. `--down` adds targets that refuse connections,
each tried again every 30 s or so. `--hours` of the day are in the history, for it takes long to
write. Without `--interval` the targets are read as they are by default.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from day_history import write_day
from many_digest_fixture import WatchedServer, watched_server
from measured_programs import RunningProgram, running_agent, target

from testbed.real.namespaces import IN_A_CONTAINER

LOAD = 200.0  # statements a second
DEFAULT_INTERVAL = 7.5  # seconds between two readings of the status
SETTLING = 30.0  # seconds after the start that are not measured


@dataclass(frozen=True)
class Found:
    """What some targets cost."""

    cores: float
    late: float
    """Seconds by which a worker began its turns late, on average over targets and turns."""
    skipped: float
    samples: float
    """A second."""
    memory: float
    """RSS, MiB."""
    kept: float
    """Intervals in the fit of each target."""


def main() -> None:
    """Print a row for each question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--interval", type=float)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--down", type=int, default=0)
    parser.add_argument("--hours", type=float, default=24.0)
    args = parser.parse_args()
    connections = f"--max-connections={2 * args.targets + 20}"
    with watched_server(args.classes, connections) as watched, watched.under_load(LOAD):
        one, all_of_them = (
            measured(watched, count, args.interval, 60 * args.minutes, down, args.hours)
            for count, down in ((1, 0), (args.targets, args.down))
        )
    each = (all_of_them.memory - one.memory) / (args.targets - 1)
    seconds = args.interval or DEFAULT_INTERVAL
    print(f"{args.targets} targets, status every {seconds:g} s, {args.classes} classes,")
    print(f"{args.minutes:g} minutes; {all_of_them.kept:.0f} intervals of a day in each fit\n")
    print("| question | answer | goal |\n|---|---|---|")
    print(f"| share of one core | {all_of_them.cores:.2f} | 1 |")
    print(f"| of each target | {100 * all_of_them.cores / args.targets:.2f} % | 1 % at 1 s |")
    print(f"| samples of the status a second, by the schedule | {all_of_them.samples:.1f} | |")
    print(f"| turns skipped | {all_of_them.skipped:.0f} | |")
    print(f"| how late a target's turn begins, on average | {1000 * all_of_them.late:.1f} ms | |")
    print(f"| RSS with one target | {one.memory:.1f} MiB | 80 MiB |")
    print(f"| RSS with all | {all_of_them.memory:.1f} MiB | |")
    print(f"| each further target | {each:.2f} MiB | 1 MiB |")


def measured(
    watched: WatchedServer,
    count: int,
    interval: float | None,
    seconds: float,
    down: int = 0,
    hours: float = 24.0,
) -> Found:
    """So many targets for so long, and beside them some that are down."""
    often = {} if interval is None else {"interval": interval}
    collectors: Mapping[str, object] = {
        **dict.fromkeys(("status", "statements", "threads", "digests"), often),
        "host": {"enabled": False},
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = [f"db{number}" for number in range(count)]
        path = folder / "history" / "history.db"
        write_day(path, names, watched.identity, hours)
        targets, history = [target(watched, folder, name) for name in names], {"path": str(path)}
        targets += [dead(folder, number) for number in range(down)]
        options = {"collectors": collectors, "history": history}
        with running_agent(folder, targets, IN_A_CONTAINER, **options) as agent:
            time.sleep(SETTLING)
            before, started = totals(agent), time.monotonic()
            time.sleep(seconds)
            after, elapsed = totals(agent), time.monotonic() - started
            turns = count * elapsed / (interval or DEFAULT_INTERVAL)
            cpu, late, skipped = (b - a for a, b in zip(before, after, strict=True))
            kept = agent.value("mysql_headroom_intervals_kept") / count
            per_second = turns / elapsed
            return Found(cpu / elapsed, late / turns, skipped, per_second, agent.memory(), kept)


def dead(folder: Path, number: int) -> dict[str, object]:
    """A target at a closed port."""
    file = folder / "password"
    return {
        "name": f"dead{number}",
        "host": "127.0.0.1",
        "port": 1,
        "user": "nobody",
        "password_file": str(file),
    }


def totals(agent: RunningProgram) -> tuple[float, float, float]:
    """CPU seconds, seconds late, turns skipped, up to now."""
    late = agent.value("mysql_headroom_worker_late_seconds_total", 'worker="server"')
    return agent.cpu(), late, agent.value("mysql_headroom_collector_skipped_total")


if __name__ == "__main__":
    main()
