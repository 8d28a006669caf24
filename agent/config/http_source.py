"""A server that is read over HTTP, in the configuration: its URL and login."""

from typing import Annotated, ClassVar

from msgspec import Meta

from agent.config.base_model import Section
from agent.config.existing_file import ExistingFile
from agent.support.http_client import Access, AccessError


class HttpSource(Section, frozen=True):
    """The URL of a server and the login there; passwords and tokens are in files."""

    EXAMPLE: ClassVar[str] = "http://HOST"

    url: Annotated[str, Meta(max_length=2000)]
    user: str | None = None
    password_file: ExistingFile | None = None
    token_file: ExistingFile | None = None
    ca: ExistingFile | None = None

    def access(self, timeout: float) -> Access:
        """Return how to access the server, within `timeout` seconds."""
        files = self.password_file, self.token_file, self.ca
        return Access(self.url, self.user, *files, timeout, is_configured=True)

    def __post_init__(self) -> None:
        """Raise ValueError where the URL, the login or its files cannot be used."""
        if self.password_file and not self.user:
            raise ValueError("password_file needs a user; name the user")
        if self.user and self.token_file:
            raise ValueError("give a user or a token_file, not both")
        try:
            access = self.access(1.0)
            access.base(self.EXAMPLE)
            access.opener()
        except AccessError as error:
            raise ValueError(str(error)) from None
