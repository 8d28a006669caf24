"""Replicas: no client's work, and classes only where it is statements that they apply."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from class_recording import CPU_ON, classes_observed_in, connected, record
from conftest import ServerFactory
from test_live_collectors import IN_FLIGHT_ON, settled

from agent.config.resources import ResourceSettings
from agent.demo.private_server import Flavour
from agent.query_classes.period_attribution import ObservedClasses
from agent.window.recent_time_split import time_use
from agent.window.resource_utilisation import CPUS, SERVER_SHARE_OF_CPU
from collectors import status, threads_table
from models.attribution.result import ClassUse
from models.time_split.time_parts import TimePart
from testbed.real.agent_in_process import watched, window_of
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import Daemon, PlausiblePage, target, wait_until, watching
from testbed.real.replication import DUMPS, REPLICA, STOP, let_follow
from testbed.real.server_programs import Release

SECONDS = 15
REST = 0.3
"""Threads: a dump that counted would be one. On a busy machine statements of the servers' own that
take a tenth of a second of an interval were seen."""
ONE_ROW = (
    "CREATE DATABASE live",
    "CREATE TABLE live.r (id INT PRIMARY KEY AUTO_INCREMENT, pad VARCHAR(200))",
    "INSERT INTO live.r (pad) VALUES (REPEAT('x', 200))",
)
FILL = "INSERT INTO live.r (pad) SELECT pad FROM live.r"
THERE = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'live'"
APPLIERS = 4
PARALLEL = (f"--slave-parallel-threads={APPLIERS}", "--slave-parallel-mode=optimistic")


@dataclass(frozen=True)
class Way:
    """How the source writes its binary log, and how many threads of the replica apply it."""

    flavour: Flavour
    binlog_format: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The test's name."""
        return f"{self.flavour}-{self.binlog_format}{'-parallel' if self.options else ''}".lower()


def applied(private_server: ServerFactory, way: Way) -> ObservedClasses:
    """What `profile` says of a replica that applies much, beside a client that does little."""
    written = [f"--binlog-format={way.binlog_format}"]
    source = private_server(way.flavour, log_bin=True, options=written)
    replica = private_server(way.flavour, options=[*REPLICA, *way.options])
    run_as_root(replica, CPU_ON)
    let_follow(source, replica)
    run_as_root(source, *ONE_ROW, *[FILL] * 11)
    wait_until("the table on the replica", lambda: run_as_root(replica, THERE)[0][0] == 1)
    with (
        connected(replica) as connection,
        Clients(source, "UPDATE live.r SET pad = SHA2(CONCAT(pad, id), 224)", pace=0.1) as writer,
        Clients(replica, "SELECT BENCHMARK(50000, 5 + 7) AS bystander", pace=0.5),
    ):
        wait_until("writes", lambda: writer.done > 20)
        read = threads_table.prepare(connection).read
        assert read is not None
        wait_until(
            "an applier at work",  # for a few milliseconds of each tenth of a second
            lambda: any(read()[threads_table.APPLYING] > 0 for _ in range(100)),
        )
        return classes_observed_in(record(connection, SECONDS))


def use_of(seen: ObservedClasses, word: str) -> tuple[ClassUse, float]:
    """What the class with this word used of the CPU, and how long it ran."""
    assert seen.cpu is not None
    [use] = [use for use in seen.cpu.classes if word in (seen.registry.text(use.name) or "")]
    return use, float(seen.intervals.work_time[:, seen.intervals.names.index(use.name)].sum())


@pytest.mark.parametrize(
    "way",
    [
        Way("mysql", "ROW"),
        Way("mariadb", "ROW", PARALLEL),
        pytest.param(Way("mariadb", "ROW"), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_applied_rows_are_unattributed(way: Way, private_server: ServerFactory) -> None:
    """They are in no digest, and no other class is charged for them."""
    seen = applied(private_server, way)
    assert seen.cpu is not None
    bystander, spent = use_of(seen, "`bystander`")
    print(f"total {seen.cpu.total}, unattributed {seen.cpu.unattributed}, bystander {bystander}")
    assert bystander.total <= spent * (1 + 1e-9)
    assert seen.cpu.total > 2 * spent, "the applier did too little for a test"
    assert seen.cpu.unattributed > 0.5 * seen.cpu.total


@pytest.mark.parametrize("way", [Way("mariadb", "STATEMENT", PARALLEL)], ids=str)
def test_applied_statements_are_classes(way: Way, private_server: ServerFactory) -> None:
    """MariaDB counts them by digest like a client's; the CPU follows the time."""
    seen = applied(private_server, way)
    assert seen.cpu is not None
    bystander, waited = use_of(seen, "`bystander`")
    update, spent = use_of(seen, "UPDATE `live`")
    print(f"total {seen.cpu.total}, unattributed {seen.cpu.unattributed}, {update}, {bystander}")
    assert spent > waited, "the applier did too little for a test"
    assert bystander.total <= waited * (1 + 1e-9)
    assert update.total > bystander.total


def test_the_cpu_of_appliers_is_no_clients_time(
    private_server: ServerFactory,
) -> None:
    """A client sleeps beside an applier of rows that computes."""
    source = private_server("mysql", log_bin=True, options=["--binlog-format=ROW"])
    replica = private_server("mysql", options=REPLICA)
    let_follow(source, replica)
    run_as_root(source, *ONE_ROW, *[FILL] * 12)
    with (
        Clients(source, "UPDATE live.r SET pad = SHA2(CONCAT(pad, id), 224)", pace=0.05),
        Clients(replica, "SELECT SLEEP(0.3)") as sleeper,
        watched(replica, interval=2.0) as agent,
    ):
        wait_until("sleeps", lambda: sleeper.done > 3)
        time.sleep(SECONDS)
        window = window_of(agent)
    used = window.utilisations[SERVER_SHARE_OF_CPU] * window.utilisations[CPUS]
    assert np.nanmean(used) > 0.2, "the applier did too little for a test"
    found = time_use(window, 0.0, ResourceSettings())
    assert found is not None
    on_cpu = found.split.seconds[TimePart.CPU] / found.seconds
    print(f"process {np.nanmean(used):.2f} processors, its clients {on_cpu:.2f}")
    assert on_cpu < 0.5 * np.nanmean(used)


@pytest.mark.parametrize("release", ["mariadb", "mariadb-11.8"], indirect=True)
def test_parallel_appliers_are_the_replicas_own(
    private_server: ServerFactory, release: Release
) -> None:
    """MariaDB's releases name them differently: idle ones are no client's, busy ones apply."""
    source = private_server(release, log_bin=True)
    replica = private_server(release, options=[*REPLICA, *PARALLEL, "--event-scheduler=OFF"])
    let_follow(source, replica)
    run_as_root(source, *ONE_ROW, *[FILL] * 11)
    with connected(replica) as connection:
        read, status_of = threads_table.prepare(connection).read, status.prepare(connection).read
        assert read is not None
        assert status_of is not None
        threads = read()
        assert threads["system"] == 2 + APPLIERS
        assert threads["system"] + threads["agent"] == status_of()["threads_running"]
        with Clients(source, "UPDATE live.r SET pad = SHA2(CONCAT(pad, id), 224)"):
            wait_until("an applier at work", lambda: read()[threads_table.APPLYING] > 0)


OWN_THREADS = {"mysql": 0, "mariadb": 2}  # a replica's own that Threads_running counts


def test_replication_is_no_client_load(
    private_server: ServerFactory, release: Release, tmp_path: Path
) -> None:
    """A binlog dump is excluded while it lasts and when it ends."""
    source = private_server(release, log_bin=True, options=["--event-scheduler=OFF"])
    replica = private_server(release, options=[*REPLICA, "--event-scheduler=OFF"])
    run_as_root(source, IN_FLIGHT_ON)
    run_as_root(replica, IN_FLIGHT_ON)
    targets = [
        target(tmp_path, source, name="source"),
        target(tmp_path, replica, name="replica"),
    ]
    with watching(tmp_path, *targets, sane=PlausiblePage(threads=2.5)) as agent:
        let_follow(source, replica)
        since = settled(agent)
        excluded = "concurrency_excluded_threads"
        assert agent.get(excluded, target="source", kind="binlog_dump") == 1
        assert agent.get(excluded, target="replica", kind="system") == OWN_THREADS[replica.flavour]
        assert busiest(agent, since) < REST
        run_as_root(replica, STOP[replica.flavour])
        for (dump,) in run_as_root(source, DUMPS):
            run_as_root(source, f"KILL {dump}")
        wait_until("no dump", lambda: agent.get(excluded, target="source", kind="binlog_dump") == 0)
        settled(agent, 1)
        assert busiest(agent, since, "statement_time") < REST


def busiest(agent: Daemon, since: float, *sources: str) -> float:
    """The highest concurrency of any target since then."""
    return max(
        max(agent.seen("concurrency", since=since, target=name, source=source))
        for name in ("source", "replica")
        for source in sources or ("statement_time", "threads_running")
    )
