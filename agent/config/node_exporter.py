"""The node_exporter of a server's host, where the agent does not run on that host."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from agent.config.base_model import Section
from agent.config.durations import seconds, within
from agent.config.existing_file import ExistingFile
from agent.support.http_access import Access, AccessError

EXAMPLE = "http://HOST:9100"


class NodeExporterSettings(Section):
    """Where it listens, and how to get in."""

    url: str = Field(max_length=2000)
    user: str | None = None
    password_file: ExistingFile | None = None
    token_file: ExistingFile | None = None
    ca: ExistingFile | None = None
    timeout: Annotated[float, BeforeValidator(seconds), within(0.5, 30)] = 3.0

    @property
    def access(self) -> Access:
        """How it is reached; the path is ours, whatever the URL has."""
        url = self.url.rstrip("/").removesuffix("/metrics")
        return Access(url, self.user, self.password_file, self.token_file, self.ca, self.timeout)

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        if self.password_file and not self.user:
            raise ValueError("password_file is of no use alone; name the user")
        if self.user and self.token_file:
            raise ValueError("give a user or a token_file, not both")
        try:
            self.access.base(EXAMPLE)
            self.access.opener()
        except AccessError as error:
            raise ValueError(str(error)) from None
        return self
