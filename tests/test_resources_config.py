"""What the configuration says of resources: limits, ceilings, and every mistake in it."""

from pathlib import Path
from typing import Any

import pytest
from error_lines import mistakes

from agent.config.bandwidths import bytes_per_second
from agent.config.loader import load_config
from agent.config.resources import (
    UNKNOWN_RESOURCE,
    DiskSettings,
    InterfaceSettings,
    ResourceSettings,
)
from agent.config.settings import Config
from agent.service.reload import monitor_settings
from collectors.device_selection import Devices

ROOT = Path(__file__).resolve().parent.parent
TARGET = {"name": "db", "user": "u"}


def test_limits_are_found_by_resource_name() -> None:
    """Each direction of a link, both rates of a disk; what is not set is absent."""
    given = ResourceSettings.validated(
        {
            "disks": {"sda": {"operations": 3000, "bandwidth": "250MB"}, "sdb": {}},
            "interfaces": {"eth0": {"bandwidth": "1Gbit"}},
        }
    )
    assert given.limits == {
        "disk:sda:operations": 3000.0,
        "disk:sda:bytes": 250e6,
        "network:eth0:received": 125e6,
        "network:eth0:sent": 125e6,
    }


def test_a_device_is_named_by_a_limit_or_by_a_ceiling() -> None:
    """Of either kind; the server's own limits are no devices."""
    given = ResourceSettings.validated(
        {
            "ceilings": {"cpu": 0.9, "connections": 0.8, "disk:dm-0": 0.7, "network:lo:sent": 0.5},
            "disks": {"sda": {}},
            "interfaces": {"eth0": {"bandwidth": 1e6}},
        }
    )
    assert given.devices == Devices(frozenset({"sda", "dm-0"}), frozenset({"eth0", "lo"}))


def test_a_target_overrides_resources_and_inherits_others() -> None:
    """By device and by resource; one that is named again is replaced as a whole."""
    config = Config.validated(
        {
            "resources": {
                "ceilings": {"cpu": 0.9, "disk:sda": 0.8},
                "disks": {"sda": {"operations": 100, "bandwidth": 1e6}},
            },
            "targets": [
                {
                    **TARGET,
                    "resources": {
                        "ceilings": {"cpu": 0.5},
                        "disks": {"sda": {"operations": 200}},
                        "interfaces": {"eth0": {"bandwidth": 5.0}},
                    },
                }
            ],
        }
    )
    found = config.resource_settings(config.targets[0])
    assert found.ceilings == {"cpu": 0.5, "disk:sda": 0.8}
    assert found.disks == {"sda": DiskSettings(operations=200)}
    assert found.interfaces == {"eth0": InterfaceSettings(bandwidth=5.0)}


def test_a_reload_detects_a_changed_ceiling() -> None:
    """Also one in the file's section: the target gets a new monitor."""

    def settings(**resources: Any) -> tuple[Any, ...]:
        config = Config.validated({"resources": resources, "targets": [TARGET]})
        return monitor_settings(config, config.targets[0])

    assert settings() == settings()
    assert settings() != settings(ceilings={"cpu": 0.5})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (250e6, 250e6),
        (7, 7.0),
        ("250MB", 250e6),
        ("1.5 GB", 1.5e9),
        ("10Gbit", 1.25e9),
        ("800kbit/s", 1e5),
        ("12B", 12.0),
    ],
)
def test_a_bandwidth_has_common_units(text: object, expected: float) -> None:
    """Bits and bytes, with the metric prefixes of networks and disks."""
    assert bytes_per_second(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["fast", "1GiB", "-3MB", "1e3MB", "MB", "", True, None, ["1MB"]])
def test_an_invalid_bandwidth_is_refused(text: object) -> None:
    """With the valid forms."""
    with pytest.raises(ValueError, match="write 250MB"):
        bytes_per_second(text)


def test_every_mistake_is_reported_with_its_line_and_key(tmp_path: Path) -> None:
    """An unknown resource, a share above 1, a rate of 0, an unknown key."""
    path = tmp_path / "config.yaml"
    path.write_text(
        """\
resources:
  ceilings:
    cpu: 1.5
    gpu: 0.5
    disk:sda: 0
  disks:
    sda: {operations: 0, iops: 5}
    sdb: {bandwidth: soon}
  interfaces:
    eth0: {bandwidth: .inf}
targets:
  - {name: a, user: u}
"""
    )
    assert mistakes(load_config, path) == [
        "3: resources.ceilings.cpu: must be a share above 0 and at most 1; write 0.9 for 90 %",
        f"4: resources.ceilings.gpu: {UNKNOWN_RESOURCE}",
        "5: resources.ceilings.disk:sda: must be a share above 0 and at most 1; write 0.9 for 90 %",
        "7: resources.disks.sda.iops: unknown key; the keys here are operations, bandwidth",
        "7: resources.disks.sda.operations: must be greater than 0",
        "8: resources.disks.sdb.bandwidth: not a bandwidth; write 250MB, 1.5GB, 10Gbit or a number"
        " of bytes/s",
        "10: resources.interfaces.eth0.bandwidth: must be a finite number",
    ]


def test_every_key_is_documented() -> None:
    """docs/configuration.md has each, by its path."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    paths = [f"resources.{key}" for key in ("ceilings.RESOURCE", "vcpus", "statement_cpu_share")]
    paths += [f"resources.disks.DISK.{key}" for key in DiskSettings.__struct_fields__]
    paths += [
        f"resources.interfaces.INTERFACE.{key}" for key in InterfaceSettings.__struct_fields__
    ]
    assert [path for path in paths if f"`{path}`" not in text] == []
    named = {path.split(".")[1] for path in paths}
    assert set(ResourceSettings.__struct_fields__) == named
