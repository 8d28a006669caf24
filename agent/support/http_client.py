"""Access to a server over HTTP: its URL, login and certificate authority, and its answer."""

import base64
import http.client
import math
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from agent.support.errors import HeadroomError, InputError
from agent.support.gzip_stream import CHUNK_BYTES, unpacked
from agent.support.timed_response import TimedHTTPHandler, TimedHTTPSHandler
from collectors.transport_security import (
    EXPIRED_CODE,
    OTHER_NAME_CODES,
    RENEW_CERTIFICATE,
    verifying_context,
)

REFUSED_LOGIN_STATUSES = (401, 403, 407)
"""HTTP status codes of a refused login, the last one by a proxy."""
TUNNEL_REFUSAL = re.compile(r"Tunnel connection failed: (403|407)\b")
"""The message of http.client when a proxy refuses the CONNECT request of an https URL."""
NO_PROXY = "name the server's host in no_proxy"
MAX_TEXT_LENGTH = 200
"""Characters of an external message that are shown."""


class AccessError(HeadroomError):
    """The server cannot be accessed; the message is one line with the remedy."""


class AccessOptionError(InputError, AccessError):
    """The URL, the login or the authority that was given cannot be used."""


class UntrustedError(HeadroomError):
    """The server's certificate is not verified; the message is the reason.

    `is_other_name`: it was issued for another name than that in the URL.
    """

    def __init__(self, error: ssl.SSLCertVerificationError) -> None:
        super().__init__(error.verify_message.rstrip("."))
        self.is_other_name = error.verify_code in OTHER_NAME_CODES
        self.has_expired = error.verify_code == EXPIRED_CODE


class NoAnswerError(HeadroomError):
    """The server does not answer; the message is the reason."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the password is for the configured server, and for no other."""

    def redirect_request(self, *_: Any) -> None:
        """Return no further request, so that a redirect counts as a refusal like others."""


@dataclass(frozen=True, slots=True)
class Access:
    """URL and credentials of a server. Passwords and tokens are read from files."""

    url: str
    user: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    ca: Path | None = None
    timeout: float = 30.0
    headers: Mapping[str, str] = field(default_factory=dict)
    is_configured: bool = False
    """Whether it comes from a configuration file: messages then name keys instead of options."""

    def option(self, key: str) -> str:
        """Return the name of the option, or of the key, that sets this."""
        return key if self.is_configured else f"--{key.replace('_', '-')}"

    @property
    def has_login(self) -> bool:
        """Whether requests are authenticated, by user and password or by a token."""
        return self.token_file is not None or None not in (self.user, self.password_file)

    def untrusted_text(self, why: UntrustedError) -> str:
        """Return that the certificate is not verified, why, and the remedy."""
        if why.is_other_name:
            remedy = "use a name in the URL that the certificate has"
        elif why.has_expired:
            remedy = RENEW_CERTIFICATE
        elif self.ca is not None:
            remedy = f"check {self.option('ca')}"
        else:
            remedy = f"give its CA certificate with {self.option('ca')}"
        return f"its certificate is not verified ({why}); {remedy}"

    def refused_login_text(self, code: int, request: urllib.request.Request, *others: str) -> str:
        """Return that the login is refused, and the remedy; `others` may be missing too."""
        verb = "check" if self.has_login else "give"
        user = f"{self.option('user')} with {self.option('password_file')}"
        remedy = ", or ".join([user, self.option("token_file"), *others])
        return refusal_text(code, request, f"{verb} {remedy}")

    def authorisation(self) -> dict[str, str]:
        """Return the header with the credentials; raises `AccessOptionError`."""
        if self.token_file is not None:
            return {"Authorization": f"Bearer {_token(self.token_file)}"}
        if self.user is None:
            return {}
        password = _secret(self.password_file) if self.password_file else ""
        pair = base64.b64encode(f"{self.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def base(self, example: str) -> str:
        """Return the URL without a final slash; raises `AccessOptionError`."""
        try:
            parts = urllib.parse.urlsplit(self.url)
        except ValueError:  # brackets that are no address
            parts = urllib.parse.urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            text = f"{_without_login(self.url)!r} is not a URL; write {example}"
            raise AccessOptionError(text)
        if parts.username or parts.password:
            remedy = f"use {self.option('user')} and {self.option('password_file')}"
            text = f"a password does not belong in the URL; {remedy}"
            raise AccessOptionError(text)
        return self.url.rstrip("/")

    def opener(self) -> urllib.request.OpenerDirector:
        """Make the opener of requests; raises `AccessOptionError` for an unusable authority."""
        handlers = TimedHTTPHandler, TimedHTTPSHandler(self._context()), NoRedirect
        return urllib.request.build_opener(*handlers)

    def _context(self) -> ssl.SSLContext:
        """Return a context that verifies the server by `ca`, else by the system's authorities."""
        if self.ca is None:
            return _system_context()
        try:
            return verifying_context(str(self.ca))
        except OSError as error:
            reason = "not in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
            raise AccessOptionError(
                f"{self.ca}: no certificates ({reason}); name a PEM file"
            ) from None


def refusal_text(code: int, request: urllib.request.Request, remedy: str) -> str:
    """Return who has refused a request with one of `REFUSED_LOGIN_STATUSES`, and the remedy.

    `remedy` is for the server's login; a proxy may have refused what was sent to it unencrypted.
    """
    proxy = proxy_of(request) if request.full_url.startswith("http:") else None
    if code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _proxy_login_text(proxy or "before it", "http_proxy")
    if proxy and code == HTTPStatus.FORBIDDEN:
        refused = f"login refused ({code}), or the proxy {proxy} refuses the request"
        return f"{refused}; {remedy}, or {NO_PROXY}"
    return f"login refused ({code}); {remedy}"


def _proxy_login_text(proxy: str, variable: str) -> str:
    remedy = f"give it in {variable}, as http://USER:PASSWORD@HOST:PORT, or {NO_PROXY}"
    return f"the proxy {proxy} asks for a login (407); {remedy}"


def _tunnel_refusal(reason: object, request: urllib.request.Request) -> str | None:
    """Return that a proxy refuses to connect to the server, and the remedy; None if none does."""
    found, proxy = TUNNEL_REFUSAL.match(str(reason)), proxy_of(request)
    if not found or not proxy:
        return None
    if int(found[1]) == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _proxy_login_text(proxy, "https_proxy")
    remedy = f"let the proxy allow it, or {NO_PROXY}"
    return f"the proxy {proxy} refuses to connect to it ({found[1]}); {remedy}"


@cache
def _system_context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities: loading 144 of them takes 0.9 MiB."""
    return ssl.create_default_context()


def redirect_text(error: urllib.error.HTTPError) -> str | None:
    """Return that the answer is a redirect, and the remedy; None if it is another refusal."""
    location = one_line(error.headers.get("Location", ""))
    remedy = "give the URL that answers without a redirect, and a login if it needs one"
    return f"redirects to {location}; {remedy}" if location else None


def retry_after(error: urllib.error.HTTPError) -> float:
    """Return the seconds that the answer asks to wait, or the time up to its date (RFC 9110).

    0 if it does not ask.
    """
    value = error.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(math.ceil(until - time.time()), 0.0)


def one_line(text: object) -> str:
    """Return an external message as one line, shortened."""
    return " ".join(str(text).split())[:MAX_TEXT_LENGTH]


def read_answer(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    timeout: float,
    most: int,
) -> bytes:
    """Send a request, and read a limited number of bytes of the answer.

    The server has `timeout` seconds to be connected, and as many for its whole answer. Raises
    `urllib.error.HTTPError` for an answer that is a refusal, else `UntrustedError`, `NoAnswerError`
    or, with a remedy, `AccessError`.
    """
    try:
        with opener.open(request, timeout=timeout) as answer:
            return b"".join(_content(answer, most))
    except urllib.error.HTTPError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise UntrustedError(error) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise UntrustedError(reason) from None
        if refusal := _tunnel_refusal(reason, request):
            raise AccessError(refusal) from None
        raise NoAnswerError(_reason_text(reason) + _proxy_text(request)) from None


def _proxy_text(request: urllib.request.Request) -> str:
    proxy = proxy_of(request)
    return f", through the proxy {proxy}" if proxy else ""


def proxy_of(request: urllib.request.Request) -> str | None:
    """Return the proxy of the environment to which the request was sent; None if to none."""
    host = urllib.parse.unquote(urllib.parse.urlsplit(request.full_url).netloc)
    return None if request.host == host else request.host


def read_refusal(error: urllib.error.HTTPError, most: int) -> bytes:
    """Read a limited number of bytes of a refusal, and close it.

    What does not arrive in time is left out: the status says enough.
    """
    content = bytearray()
    unreadable = (OSError, http.client.HTTPException, ValueError, AccessError, NoAnswerError)
    with error, suppress(*unreadable):
        for piece in _content(error, most):
            content += piece
    return bytes(content)


def _reason_text(reason: object) -> str:
    """Return why there is no answer, without the number of the error."""
    text = reason.strerror if isinstance(reason, OSError) else None
    return str(text or reason)


def _content(answer: Any, most: int) -> Iterator[bytes]:
    """Yield it piece by piece, as it arrives, unpacked, and no more than so many bytes."""
    pieces, left = _decoded(answer), most
    while left > 0 and (piece := next(pieces, None)) is not None:
        yield piece[:left]
        left -= len(piece)


def _decoded(answer: Any) -> Iterator[bytes]:
    """Yield it unpacked: some servers and proxies compress it unasked."""
    encoding = ", ".join(answer.headers.get_all("Content-Encoding", [])).strip().lower()
    pieces = _received(answer)
    if encoding in ("", "identity"):
        yield from pieces
    elif encoding in ("gzip", "x-gzip"):
        try:
            yield from unpacked(pieces)
        except (EOFError, zlib.error) as error:
            raise NoAnswerError(f"its gzip cannot be unpacked: {error}") from None
    else:
        remedy = "let the server, or the proxy before it, send gzip or no encoding"
        raise AccessError(f"the encoding {encoding[:40]!r} of its answer is not read; {remedy}")


def _received(answer: Any) -> Iterator[bytes]:
    """Yield its pieces; raises `NoAnswerError` if it ends before the length that it has named."""
    yield from iter(partial(answer.read1, CHUNK_BYTES), b"")
    if answer.length:  # what `read1` has not got, of which it says nothing
        raise NoAnswerError(f"it ended {answer.length} bytes early")


def _without_login(url: str) -> str:
    """Return the URL without what stands before an `@`, which may be a password."""
    _, at, rest = url.rpartition("@")
    return f"***@{rest}" if at else url


def _token(path: Path) -> str:
    """Read a token, which a header can carry; the message for another never shows it."""
    token = _secret(path)
    if not (token.isascii() and token.isprintable()):
        raise AccessOptionError(f"{path}: no token; write one line of ASCII characters")
    return token


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise AccessOptionError(f"{path}: cannot be read ({reason}); check the path") from None
