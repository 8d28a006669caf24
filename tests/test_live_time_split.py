"""Each kind of load is classified by what limits it, and its split is near performance_schema's."""

import pytest
from conftest import one_in_every_run

from agent.demo.private_server import Flavour
from testbed.real import statement_time_scenarios as bench
from testbed.real.daemon import is_root
from testbed.real.server_programs import missing, server_program

SECONDS, TOGETHER = 4.0, 30.0
POINTS = 25.0
"""Of a share; on a machine at rest they were within 14 (docs/time-split.md)."""


@pytest.mark.live
@pytest.mark.parametrize("flavour", one_in_every_run("mysql"), indirect=True)
@pytest.mark.skipif(not is_root(), reason="only root throttles a disk and a link")
def test_loads_are_split_as_performance_schema_measures(flavour: Flavour) -> None:
    """Scans of memory and disk, results over a link, row and table locks, and SLEEP."""
    if server_program(flavour) is None:
        missing(f"{flavour} server")
    found = list(bench.results(flavour, SECONDS, POINTS))
    print(*map(bench.line, found), sep="\n")
    limits = [result.limited_by.limit for result in found if result.limited_by]
    assert limits == [scenario.limit for scenario in bench.SCENARIOS]
    assert [r.scenario.name for r in found if r.worst > POINTS] == []


@pytest.mark.live
@pytest.mark.long
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.skipif(not is_root(), reason="only root throttles a disk and a link")
def test_classes_are_distinguished_while_all_run_at_once(flavour: Flavour) -> None:
    """Each class of `profile` is limited by what its own sessions wait for most.

    On MariaDB the scan that computes waits for its pages as long as it computes: the scan of the
    disk evicts them.
    """
    if server_program(flavour) is None:
        missing(f"{flavour} server")
    found = list(bench.classes(flavour, TOGETHER))
    print(*map(bench.line, found), sep="\n")
    assert [result.scenario.name for result in found if not result.is_right] == []
    assert [r.scenario.name for r in found if r.worst > POINTS] == []
