"""The labels of a resource: its kind, its device, and the dimension that is limited."""

from agent.window.resource_utilisation import CPU_PARTS

LABELS = ("resource", "device", "dimension")
DEVICES = ("disk", "network")
BUSY = "busy"
"""The dimension of a device whose name has none: a disk's busy time."""
DIMENSIONS = ("flush", "operations", "bytes", "received", "sent")


def resource_labels(name: str) -> tuple[str, str, str]:
    """Return the values of LABELS for a resource's name in the models; empty where it has none.

    `disk:sda:flush` is ("disk", "sda", "flush"), `disk:sda` is ("disk", "sda", "busy"), and `cpu`,
    which has no device, ("cpu", "", ""). Prometheus treats an empty label as absent.
    """
    kind, _, rest = name.partition(":")
    if kind not in DEVICES:
        return name, "", ""
    device, _, dimension = rest.rpartition(":")
    return (kind, device, dimension) if dimension in DIMENSIONS else (kind, rest, BUSY)


def cpu_part(name: str) -> str | None:
    """Return `server` or `steal` for a part of the host's CPU; None for a whole resource."""
    return name.partition(":")[2] if name in CPU_PARTS else None
