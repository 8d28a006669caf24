"""The changes of a what-if question, as factors: 1 is as today."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite

MIN_FACTOR, MAX_FACTOR = 0.001, 1000.0
"""Factors outside of this range are taken for mistakes."""


@dataclass(frozen=True)
class Changes:
    """Factors by which hardware, load and costs change, all of them together.

    Raises ValueError where a factor is not a number from `MIN_FACTOR` to `MAX_FACTOR`.
    """

    cpu_speed: float = 1.0
    """How many times as fast each processor computes."""
    cores: float = 1.0
    """How many times as many processors there are."""
    disk_rate: float = 1.0
    """How many times as many bytes per second the disk moves."""
    disk_latency: float = 1.0
    """How many times as long the disk takes for a request."""
    network: float = 1.0
    """How many times as many bytes per second the link carries."""
    servers: float = 1.0
    """How many times as many servers share the load equally."""
    load: float = 1.0
    """How many times as many queries arrive."""
    queries: Mapping[str, float] = field(default_factory=dict)
    """By class: how many times as much each of its calls costs."""

    def __post_init__(self) -> None:
        """Raise ValueError for a factor that is out of range."""
        for name, factor in self._factors():
            if not (isfinite(factor) and MIN_FACTOR <= factor <= MAX_FACTOR):
                allowed = f"from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
                raise ValueError(f"{name}: a factor must be {allowed}, not {factor:g}")

    def _factors(self) -> Iterator[tuple[str, float]]:
        for each in fields(self):
            if each.name != "queries":
                yield each.name, float(getattr(self, each.name))
        yield from self.queries.items()

    def alone(self) -> list[tuple[str, "Changes"]]:
        """Return each change by itself, with the name of what it changes; 1 is no change."""
        found = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "queries":
                found += [(key, Changes(queries={key: f})) for key, f in value.items()]
            elif value != 1.0:
                found.append((each.name, replace(Changes(), **{each.name: value})))
        return found
