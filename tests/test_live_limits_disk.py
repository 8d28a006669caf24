"""The operations that a throttled disk allows are the limit of a server that reads from it.

The server's tables are larger than its memory, and it reads past the page cache, as in production.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from cgroups import disk_under, throttled_reads
from conftest import ServerFactory, one_in_every_run
from disks import own_disk
from limited_servers import approached, watched
from live import Clients, is_root, run_as_root

from agent.demo.server import Flavour

OPTIONS = ("--innodb-flush-method=O_DIRECT", "--innodb-buffer-pool-size=8M")
DIGITS = " UNION ALL SELECT ".join(["SELECT 0 AS n", *map(str, range(1, 10))])
TABLE = (
    "CREATE DATABASE large",
    "CREATE TABLE large.t (id INT PRIMARY KEY, pad VARCHAR(7000)) CHARSET latin1",
    f"CREATE TABLE large.digits {DIGITS}",
    "INSERT INTO large.t SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n, REPEAT('x', 7000)"
    " FROM large.digits a, large.digits b, large.digits c, large.digits d",
)
ANYWHERE = "SELECT CAST(FLOOR(10000 * RAND()) AS SIGNED)"
STATEMENT = (  # four rows of ten thousand, of which few are in memory
    f"SELECT SUM(LENGTH(pad)) FROM large.t JOIN ({ANYWHERE} AS id UNION ALL {ANYWHERE}"
    f" UNION ALL {ANYWHERE} UNION ALL {ANYWHERE}) AS pick USING (id)"
)
OPERATIONS = 1500  # per second, as a small volume in a cloud; little work for a processor
NEAR, WANDERS = 0.25, 0.15


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root limits what a process may use")
@pytest.mark.parametrize("flavour", one_in_every_run("mysql"), indirect=True)
def test_the_operations_of_a_throttled_disk_are_the_limit_of_its_reader(
    flavour: Flavour,
    start_server: ServerFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the name of the limit, and not by that of the disk, which is not busy."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_disk(tmp_path / "disk", "2G"))
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder))
            server = stack.enter_context(start_server(flavour, options=OPTIONS))
        run_as_root(server, *TABLE)
        disk = disk_under(server.datadir)
        stack.enter_context(throttled_reads(server.pid, disk, OPERATIONS))
        resource_limit = approached(
            lambda count, pace: Clients(server, STATEMENT, count, pace=pace),
            watched(tmp_path, server, disks={disk: {"operations": OPERATIONS}}),
        )
    resource_limit.assert_met(f"disk:{disk}:operations", near=NEAR, wanders=WANDERS)
