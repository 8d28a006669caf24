"""The metrics as text, in the format of Prometheus (0.0.4) or of OpenMetrics (1.0.0).

The library's encoder takes three times as long for OpenMetrics, which Prometheus asks for, and
three times the memory: it keeps all lines, their text, and its bytes.
"""

from collections.abc import Callable
from io import BytesIO

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

format_number: Callable[[float], str] = floatToGoString

SUFFIXES = {"counter": "_total", "info": "_info"}
"""Suffix of a family's name in the format of Prometheus, by the family's type."""
OPEN_METRICS_END = "# EOF\n"


def encode_metrics(collector: Collector, *, open_metrics: bool) -> bytes:
    """Return all families of gauges, counters and infos, without timestamps and exemplars."""
    text, header_of = BytesIO(), _open_metrics_header if open_metrics else _prometheus_header
    for family in collector.collect():
        text.write(header_of(family).encode())
        text.write("".join(map(_sample_line, family.samples)).encode())
    if open_metrics:
        text.write(OPEN_METRICS_END.encode())
    return text.getvalue()


def _open_metrics_header(family: Metric) -> str:
    name = family.name
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    return _header(name, _escaped(family.documentation), family.type) + unit


def _prometheus_header(family: Metric) -> str:
    kind = "gauge" if family.type == "info" else family.type
    described = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return _header(family.name + SUFFIXES.get(family.type, ""), described, kind)


def _header(name: str, described: str, kind: str) -> str:
    return f"# HELP {name} {described}\n# TYPE {name} {kind}\n"


def _sample_line(sample: Sample) -> str:
    pairs = ",".join([f'{name}="{_escaped(text)}"' for name, text in sorted(sample.labels.items())])
    labels = f"{{{pairs}}}" if pairs else ""
    return f"{sample.name}{labels} {format_number(sample.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
