"""The labels of a resource: its kind, its device, and the dimension that is limited."""

from agent.window.resource_utilisation import PARTS

LABELS = ("resource", "device", "dimension")
DEVICES = ("disk", "network")
BUSY = "busy"
"""The dimension of a device that is named alone: a disk's busy time."""
DIMENSIONS = ("flush", "operations", "bytes", "received", "sent")


def resource_labels(name: str) -> tuple[str, str, str]:
    """The values of LABELS of a resource as the models name it; empty where it has none.

    `disk:sda:flush` is ("disk", "sda", "flush"), `disk:sda` is ("disk", "sda", "busy"), and `cpu`,
    which has no device, ("cpu", "", ""). To Prometheus an empty label is one that is not there.
    """
    kind, _, rest = name.partition(":")
    if kind not in DEVICES:
        return name, "", ""
    device, _, dimension = rest.rpartition(":")
    return (kind, device, dimension) if dimension in DIMENSIONS else (kind, rest, BUSY)


def cpu_part(name: str) -> str | None:
    """`server` or `steal` where this is a part of the host's CPU; None: a whole resource."""
    return name.partition(":")[2] if name in PARTS else None
