"""What a replica applies: classes where it applies statements, nobody's where it applies rows."""

from dataclasses import dataclass

import pytest
from class_recording import CPU_ON, connected, looked_at, record
from conftest import ServerFactory
from live import Clients, run_as_root, wait_until
from replication import REPLICA, let_follow

from agent.classes.observe import Observed
from agent.demo.server import Flavour
from models.attribution.divide import ClassUse

SECONDS = 15
FILL = "INSERT INTO live.r (pad) SELECT pad FROM live.r"
THERE = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'live'"
PARALLEL = ("--slave-parallel-threads=4", "--slave-parallel-mode=optimistic")


@dataclass(frozen=True)
class Way:
    """How the source writes its binary log, and how many threads of the replica apply it."""

    flavour: Flavour
    binlog_format: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The test's name."""
        return f"{self.flavour}-{self.binlog_format}{'-parallel' if self.options else ''}".lower()


def applied(private_server: ServerFactory, way: Way) -> Observed:
    """What `profile` says of a replica that applies much, beside a client that does little."""
    written = [f"--binlog-format={way.binlog_format}"]
    source = private_server(way.flavour, log_bin=True, options=written)
    replica = private_server(way.flavour, options=[*REPLICA, *way.options])
    run_as_root(replica, CPU_ON)
    let_follow(source, replica)
    run_as_root(
        source,
        "CREATE DATABASE live",
        "CREATE TABLE live.r (id INT PRIMARY KEY AUTO_INCREMENT, pad VARCHAR(200))",
        "INSERT INTO live.r (pad) VALUES (REPEAT('x', 200))",
        *[FILL] * 11,
    )
    wait_until("the table on the replica", lambda: run_as_root(replica, THERE)[0][0] == 1)
    with (
        connected(replica) as connection,
        Clients(source, "UPDATE live.r SET pad = SHA2(CONCAT(pad, id), 224)", pace=0.1) as writer,
        Clients(replica, "SELECT BENCHMARK(50000, 5 + 7) AS bystander", pace=0.25),
    ):
        wait_until("writes", lambda: writer.done > 20)
        return looked_at(record(connection, SECONDS))


def use_of(seen: Observed, word: str) -> tuple[ClassUse, float]:
    """What the class with this word used of the CPU, and how long it ran."""
    assert seen.cpu is not None
    [use] = [use for use in seen.cpu.classes if word in (seen.book.text(use.name) or "")]
    return use, float(seen.ticks.work_time[:, seen.ticks.names.index(use.name)].sum())


@pytest.mark.parametrize(
    "way",
    [Way("mysql", "ROW"), Way("mariadb", "ROW"), Way("mariadb", "ROW", PARALLEL)],
    ids=str,
)
def test_rows_that_are_applied_are_nobodys_and_never_spread(
    way: Way, private_server: ServerFactory
) -> None:
    """They are in no digest: unattributed; a client that does little does not pay for them."""
    seen = applied(private_server, way)
    assert seen.cpu is not None
    bystander, spent = use_of(seen, "`bystander`")
    print(f"total {seen.cpu.total}, unattributed {seen.cpu.unattributed}, bystander {bystander}")
    assert bystander.total <= spent * (1 + 1e-9)
    assert seen.cpu.total > 2 * spent, "the applier did too little for a test"
    assert seen.cpu.unattributed > 0.5 * seen.cpu.total


@pytest.mark.parametrize("way", [Way("mariadb", "STATEMENT", PARALLEL)], ids=str)
def test_statements_that_are_applied_are_classes(way: Way, private_server: ServerFactory) -> None:
    """MariaDB sums them up by digest as if a client had said them; the CPU follows the time."""
    seen = applied(private_server, way)
    assert seen.cpu is not None
    bystander, waited = use_of(seen, "`bystander`")
    update, spent = use_of(seen, "UPDATE `live`")
    print(f"total {seen.cpu.total}, unattributed {seen.cpu.unattributed}, {update}, {bystander}")
    assert spent > waited, "the applier did too little for a test"
    assert bystander.total <= waited * (1 + 1e-9)
    assert update.total > bystander.total
