"""The operations that a throttled disk allows are the limit of a server that reads from it.

The server's tables are larger than its memory, and it reads past the page cache, as in production.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import ServerFactory, one_in_every_run
from disks import own_disk

from agent.demo.private_server import Flavour
from testbed.real.cgroups import disk_under, throttled_reads
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import is_root
from testbed.real.io_bound_queries import OPTIONS, STATEMENT, TABLE
from testbed.real.predicted_limit import approached, watched_with_limits

OPERATIONS = 1500  # per second, as a small volume in a cloud; little work for a processor
NEAR, SLACK = 0.25, 0.15


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
            watched_with_limits(tmp_path, server, disks={disk: {"operations": OPERATIONS}}),
        )
    resource_limit.assert_met(f"disk:{disk}:operations", near=NEAR, slack=SLACK)
