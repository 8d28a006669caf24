"""Names of resources as labels."""

import pytest

from agent.export.resource_labels import cpu_part, resource_labels


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("cpu", ("cpu", "", "")),
        ("innodb_threads", ("innodb_threads", "", "")),
        ("usl", ("usl", "", "")),
        ("disk:sda", ("disk", "sda", "busy")),
        ("disk:sda:flush", ("disk", "sda", "flush")),
        ("disk:dm-0:operations", ("disk", "dm-0", "operations")),
        ("network:eth0:received", ("network", "eth0", "received")),
        ("network:eth0:1:sent", ("network", "eth0:1", "sent")),
    ],
)
def test_a_name_is_split_into_kind_device_and_dimension(
    name: str, labels: tuple[str, str, str]
) -> None:
    """No label has two parts; a colon in a device's own name stays there."""
    assert resource_labels(name) == labels


def test_parts_of_the_cpu_are_no_resources() -> None:
    """They would count twice beside the whole."""
    assert [cpu_part(name) for name in ("cpu:server", "cpu:steal")] == ["server", "steal"]
    assert [cpu_part(name) for name in ("cpu", "server_cpu", "disk:sda")] == [None] * 3
