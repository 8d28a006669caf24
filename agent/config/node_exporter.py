"""The node_exporter of a server's host, where the agent does not run on that host."""

from dataclasses import replace
from typing import Annotated, ClassVar

from agent.config.base_model import Parsed
from agent.config.durations import duration_in_seconds, within_bounds
from agent.config.http_source import HttpSource
from agent.support.http_client import Access


class NodeExporterSettings(HttpSource, frozen=True):
    """The URL of a node_exporter, the login there, and the timeout in seconds."""

    EXAMPLE: ClassVar[str] = "http://HOST:9100"

    timeout: Annotated[float, Parsed(duration_in_seconds), within_bounds(0.5, 30)] = 3.0

    def access(self, timeout: float) -> Access:
        """Return how to access it; `/metrics` is cut off the URL, as the agent appends the path."""
        found = super().access(timeout)
        return replace(found, url=self.url.rstrip("/").removesuffix("/metrics"))
