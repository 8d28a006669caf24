"""Access to the pages: users, allowed host names, and requests that another site caused."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from agent.web.auth import AuthResult, BasicAuthenticator
from agent.web.cross_site import SAFE_METHODS, HostNames, is_sent_by_page
from agent.web.http_request_handler import (
    RETRY_AFTER,
    SECURITY_HEADERS,
    TEXT,
    WAIT_KEY,
    Environ,
    StartResponse,
)
from agent.web.reloading_config import LoadedWebConfig

REALM = 'Basic realm="mysql-headroom", charset="UTF-8"'
FAILURE_DELAY = 0.5  # seconds: limits a client that guesses passwords to two attempts a second
UNKNOWN_HOST = "421 unknown host name; allow it with --web.allowed-host"

Application = Callable[[Environ, StartResponse], list[bytes]]


class AccessControl:
    """WSGI middleware: admits the users of the web configuration, and sets its headers."""

    def __init__(
        self, pages: Application, web: Callable[[], LoadedWebConfig], hosts: HostNames
    ) -> None:
        self._pages = pages
        self._web = web
        self._hosts = hosts
        self._authenticator = BasicAuthenticator()

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Answer one request, or pass it to the pages."""
        config = self._web().config
        added = config.http_server_config.headers.as_sent()

        def start(status: str, headers: list[tuple[str, str]]) -> object:
            kept = [(name, text) for name, text in headers if name not in added]
            return start_response(status, [*kept, *added.items()])

        if (refusal := self._cross_site_refusal(environ)) is not None:
            return _refuse(*refusal, environ, start)
        verdict = self._verdict(config.basic_auth_users, environ)
        if verdict is AuthResult.ADMITTED:
            return self._pages(environ, start)
        if "HTTP_AUTHORIZATION" in environ:
            environ[WAIT_KEY](FAILURE_DELAY)
        return _deny(verdict, environ, start)

    def _cross_site_refusal(self, environ: Environ) -> tuple[HTTPStatus, str] | None:
        """Return the refusal of a request that a browser was tricked into, else None.

        Requests that change something are always checked, reads where host names are listed.
        """
        is_write = environ["REQUEST_METHOD"] not in SAFE_METHODS
        if is_write and is_sent_by_page(environ):
            return HTTPStatus.FORBIDDEN, "403 cross-site requests are not allowed"
        if (is_write or self._hosts.is_strict) and not self._hosts.includes_host_of(environ):
            return HTTPStatus.MISDIRECTED_REQUEST, UNKNOWN_HOST
        return None

    def _verdict(self, users: Mapping[str, str], environ: Environ) -> AuthResult:
        if not users:
            return AuthResult.ADMITTED
        header, address = environ.get("HTTP_AUTHORIZATION", ""), environ.get("REMOTE_ADDR", "")
        return self._authenticator.authenticate(users, header, address)


def _deny(verdict: AuthResult, environ: Environ, start: StartResponse) -> list[bytes]:
    status, header = HTTPStatus.UNAUTHORIZED, ("WWW-Authenticate", REALM)
    if verdict is AuthResult.BUSY:
        status, header = HTTPStatus.TOO_MANY_REQUESTS, RETRY_AFTER
    return _refuse(status, f"{status.value} {status.phrase.lower()}", environ, start, header)


def _refuse(
    status: HTTPStatus,
    text: str,
    environ: Environ,
    start: StartResponse,
    *headers: tuple[str, str],
) -> list[bytes]:
    body = f"{text}\n".encode()
    length = ("Content-Length", str(len(body)))
    start(
        f"{status.value} {status.phrase}",
        [("Content-Type", TEXT), length, *headers, *SECURITY_HEADERS],
    )
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
