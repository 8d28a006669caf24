"""The metrics as text, encoded family by family."""

from collections.abc import Callable, Iterator
from io import BytesIO

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Encoder = Callable[[Collector], bytes]
"""Encodes all families of a collector; the library has one for each format."""


class _Families(Collector):
    """A collector of these families."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from self._families


def encode_by_family(collector: Collector, encode: Encoder) -> bytes:
    """Return what `encode` returns for the collector, in a third of the memory.

    At once it would keep all lines, the text of all lines, and its bytes: 12 MB for 100 targets.
    """
    end = encode(_Families())
    text = BytesIO()
    for family in collector.collect():
        text.write(encode(_Families(family)).removesuffix(end))
    text.write(end)
    return text.getvalue()
