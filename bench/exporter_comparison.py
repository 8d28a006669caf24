"""The agent beside mysqld_exporter, in one run on the same server with the same digests.

    python bench/exporter_comparison.py [--digests 600] [--warm-up 720] [--seconds 60]
                                        [--scrapes 300]

Two ways. Readings: all classes are used once, then either the agent's collectors read once or the
exporter is scraped, by turns, on a server that does nothing else; so the server's CPU can be told.
Daemons: both run under a load that uses all classes again and again, the agent with its defaults
and a day of history: its CPU a second, beside that of an exporter scraped each 15 s in the same
minute. In the first minute, and after `--warm-up` seconds: a window of query classes fills in an
hour, and for the first ten minutes a fit is made with each of them.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from day_history import write_day
from many_digest_fixture import WatchedServer, watched_server
from measured_programs import RunningProgram, running_agent, running_exporter, target

from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import DigestDeltas
from collectors import COLLECTORS
from collectors.connection import Connection
from collectors.digests import DigestValues

ROUNDS = 40
EACH_USED_EVERY = 5.0  # seconds at most
MIN_RATE = 600.0  # statements a second
PAUSE = 0.05  # seconds between scrapes
FIRST, SCRAPED_EVERY = 60.0, 15.0  # seconds
ALL = "all"


@dataclass
class Costs:
    """Seconds, one of each turn: the reader's CPU, the server's, and until the answer was there."""

    client: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)


def main() -> None:
    """Print the table of one number of digests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digests", type=int, default=600)
    parser.add_argument("--warm-up", type=float, default=720.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--scrapes", type=int, default=300)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        watched_server(args.digests) as watched,
        running_exporter(watched, Path(name)) as exporter,
    ):
        print(f"MySQL {watched.server.version}, {args.digests} digests in use\n")
        print("| | agent | mysqld_exporter | ratio | goal |\n|---|---|---|---|---|")
        scrapes = readings(watched, exporter)
        daemons(watched, exporter, scrapes, Path(name), args)


def readings(watched: WatchedServer, exporter: RunningProgram) -> Costs:
    """A reading of all collectors and a scrape, by turns; answers what the scrapes cost."""
    reader = Reader(watched)
    turns, scrapes = {name: Costs() for name in (*reader.names, ALL)}, Costs()
    for _ in range(ROUNDS):
        watched.use_all()
        reader.read(turns)
        watched.use_all()
        scraped(exporter, watched, scrapes)
    reader.close()
    row("CPU of all collectors once", turns[ALL].client, scrapes.client)
    row("the server's CPU for that", turns[ALL].server, scrapes.server)
    row("CPU of the digests once", turns["digests"].client, scrapes.client, "30 ms at 10,000")
    for name in reader.names:
        client, server = (
            1000 * median(costs) for costs in (turns[name].client, turns[name].server)
        )
        print(f"| {name}: CPU, the server's | {client:.2f} ms, {server:.2f} ms | | | |")
    return scrapes


class Reader:
    """The agent's collectors on a session of their own, and what becomes of the digests."""

    def __init__(self, watched: WatchedServer) -> None:
        login = watched.logins["agent"]
        self._watched = watched
        self._connection = Connection(watched.endpoint, lambda: login, timeout=10, limit=10)
        self._connection.open()
        self._reads = {spec.name: spec.prepare(self._connection).read for spec in COLLECTORS}
        self._deltas = DigestDeltas(ClassRegistry())
        self.names = tuple(self._reads)
        self.read({name: Costs() for name in (*self.names, ALL)})

    def read(self, turns: dict[str, Costs]) -> None:
        """Each once."""
        begun = before = time.process_time(), self._watched.cpu()
        for name, read in self._reads.items():
            values = read() if read else {}
            if isinstance(values, DigestValues):
                self._deltas.take(values.rows)
            after = time.process_time(), self._watched.cpu()
            turns[name].client.append(after[0] - before[0])
            turns[name].server.append(after[1] - before[1])
            before = after
        turns[ALL].client.append(before[0] - begun[0])
        turns[ALL].server.append(before[1] - begun[1])

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def scraped(program: RunningProgram, watched: WatchedServer, costs: Costs) -> None:
    """One scrape and what it costs."""
    before = program.cpu(), watched.cpu()
    costs.latency.append(program.scrape()[0])
    costs.client.append(program.cpu() - before[0])
    costs.server.append(watched.cpu() - before[1])


def daemons(
    watched: WatchedServer,
    exporter: RunningProgram,
    scrapes: Costs,
    folder: Path,
    args: argparse.Namespace,
) -> None:
    """Both as daemons, under load."""
    history = folder / "history" / "history.db"
    write_day(history, ["db"], watched.identity)
    rate = max(MIN_RATE, args.digests / EACH_USED_EVERY)
    targets = [target(watched, folder)]
    with (
        running_agent(folder, targets, history={"path": str(history)}) as agent,
        watched.under_load(rate),
    ):
        first, scraped_first = sampled(agent, exporter, watched, FIRST)
        row("CPU per second, first minute", first.client, scraped_first.client, "1")
        row("the server's CPU for that", first.server, scraped_first.server, "1")
        time.sleep(max(args.warm_up - FIRST, 0.0))
        per_second, scraped_then = sampled(agent, exporter, watched, args.seconds)
        row("CPU per second; per scrape", per_second.client, scrapes.client, ".25")
        row("the server's CPU for that", per_second.server, scrapes.server, ".5")
        row("CPU per second, later", per_second.client, scraped_then.client, "1")
        row("the server's CPU for that", per_second.server, scraped_then.server, "1")
        ours, theirs = Costs(), Costs()
        for _ in range(args.scrapes):
            for program, costs in ((agent, ours), (exporter, theirs)):
                scraped(program, watched, costs)
                time.sleep(PAUSE)
        row("CPU of answering a scrape", ours.client, theirs.client)
        row("latency of a scrape, p50", ours.latency, theirs.latency)
        row("latency of a scrape, p99", ours.latency, theirs.latency, ".5", quantile=0.99)
        for kind, goal in (("Rss", "80 MiB"), ("Pss", "")):
            cells = f"{agent.memory(kind):.1f} MiB | {exporter.memory(kind):.1f} MiB"
            print(f"| memory, {kind.upper()} | {cells} | | {goal} |")
        kept = agent.value("mysql_headroom_intervals_kept")
    print(f"\nafter {args.warm_up:g} s; {kept:g} intervals of a day in the fit")


def sampled(
    agent: RunningProgram, exporter: RunningProgram, watched: WatchedServer, seconds: float
) -> tuple[Costs, Costs]:
    """CPU per second of the agent, and of an exporter that is scraped every 15 s meanwhile.

    What the server spends for the agent is the CPU of its session's thread, with the connect; for
    the exporter that of the threads of all sessions but the agent's, the load's and our own.
    """
    own = watched.session_threads(watched.logins["agent"].user, "root")
    before = _spent(agent, exporter, watched, own)
    started = time.monotonic()
    for turn in range(int(seconds // SCRAPED_EVERY)):
        time.sleep(max(started + (turn + 0.4) * SCRAPED_EVERY - time.monotonic(), 0.0))
        exporter.scrape()
    time.sleep(max(started + seconds - time.monotonic(), 0.0))
    after, elapsed = _spent(agent, exporter, watched, own), time.monotonic() - started
    ours, server_ours, theirs, server_theirs = (
        (b - a) / elapsed for a, b in zip(before, after, strict=True)
    )
    return Costs([ours], [server_ours]), Costs([theirs], [server_theirs])


def _spent(
    agent: RunningProgram, exporter: RunningProgram, watched: WatchedServer, own: set[str]
) -> tuple[float, float, float, float]:
    user = watched.logins["agent"].user
    server = watched.session_cpu(user), watched.cpu_of_other_sessions(own)
    return agent.cpu(), server[0], exporter.cpu(), server[1]


def row(
    text: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    goal: str = "",
    *,
    quantile: float = 0.5,
) -> None:
    """Print a quantile of both, and how they compare."""
    our, their = (1000 * float(np.quantile(values, quantile)) for values in (ours, theirs))
    print(f"| {text} | {our:.2f} ms | {their:.2f} ms | {our / their:.2f} | {goal} |")


if __name__ == "__main__":
    main()
