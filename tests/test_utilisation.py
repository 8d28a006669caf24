"""Which resources may end the growth, with what ceiling, and what of them is the server's own."""

import numpy as np
from numpy.testing import assert_array_equal

from agent.config.resources import DiskSettings, ResourceSettings
from agent.window.resource_utilisation import limiting_resources, resources_with_ceilings
from models.arrays import Array

HALF, QUARTER = np.full(8, 0.5), np.full(8, 0.25)


def test_the_servers_share_of_the_cpu_is_no_resource_itself() -> None:
    """It belongs to the host's CPU; CPUs that only the server may use are all its own."""
    seen = {"cpu": HALF, "cpu:server": QUARTER, "server_cpu": HALF, "disk:sda": QUARTER}
    found = {r.name: r for r in resources_with_ceilings(seen, {}, ResourceSettings())}
    assert set(found) == {"cpu", "server_cpu", "disk:sda"}
    owned = {name: r.own for name, r in found.items() if r.own is not None}
    assert set(owned) == {"cpu", "server_cpu"}
    assert_array_equal(owned["cpu"], QUARTER)
    assert_array_equal(owned["server_cpu"], HALF)


def test_the_clock_rate_belongs_to_the_cpu_and_is_no_resource() -> None:
    """A disk has none; where the kernel does not show it, no resource has."""
    seen = {"cpu": HALF, "cpu:clock": QUARTER, "server_cpu": HALF, "disk:sda": QUARTER}
    found = {r.name: r.clock for r in resources_with_ceilings(seen, {}, ResourceSettings())}
    assert set(found) == {"cpu", "server_cpu", "disk:sda"}
    assert found["disk:sda"] is None
    for name in ("cpu", "server_cpu"):
        assert_array_equal(found[name], QUARTER)
    del seen["cpu:clock"]
    assert [r.clock for r in resources_with_ceilings(seen, {}, ResourceSettings())] == [None] * 3


def names(of_all: Array, of_its: Array, **ceilings: float) -> set[str]:
    """What may end the growth of a server with these shares of the host's and of its own CPUs."""
    seen = {"cpu": HALF, "cpu:server": of_all, "server_cpu": of_its}
    resources = resources_with_ceilings(seen, {}, ResourceSettings(ceilings=ceilings))
    return {r.name for r in limiting_resources(resources, seen)}


def test_the_servers_cpus_are_a_limit_unless_they_are_all() -> None:
    """One of two processors is a limit of its own; both of them are the host's limit."""
    assert names(QUARTER, HALF) == {"cpu", "server_cpu"}
    assert names(QUARTER, QUARTER) == {"cpu"}


def test_a_server_cpu_ceiling_below_the_hosts_is_a_limit() -> None:
    """Such as a quota that cannot be seen here; one above the host's is never reached."""
    assert names(QUARTER, QUARTER, server_cpu=0.5) == {"cpu", "server_cpu"}
    assert names(QUARTER, QUARTER, server_cpu=0.9, cpu=0.8) == {"cpu"}
    assert names(QUARTER, QUARTER, cpu=0.8) == {"cpu"}


def test_a_configured_limit_makes_a_resource_of_a_rate() -> None:
    """Without one nobody knows how much 300 operations a second are."""
    rates = {"disk:sda:operations_per_second": np.full(8, 300.0)}
    assert resources_with_ceilings({}, rates, ResourceSettings()) == []
    [disk] = resources_with_ceilings(
        {}, rates, ResourceSettings(disks={"sda": DiskSettings(operations=600.0)})
    )
    assert (disk.name, disk.ceiling) == ("disk:sda:operations", 600.0)
