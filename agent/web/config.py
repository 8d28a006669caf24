"""`--web.config.file`: TLS, headers and users of the web pages, in the Prometheus format.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md; what cannot
be honoured here is refused (`config_contradictions`), so that nothing in force is weaker than what
is written.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from agent.config.base_model import Checked, Section, matching
from agent.web.auth import is_password

BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
MAX_COST = 15  # a check takes about 2.5 s; each step more doubles it
HEADER_TEXT = matching(r"[\x20-\x7e]*", "must be one line of ASCII characters")
TLS12_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

ClientAuth = Literal[
    "NoClientCert", "RequestClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
]
TlsVersion = Literal["TLS12", "TLS13"]
EllipticCurve = Literal["X25519", "CurveP256", "CurveP384", "CurveP521"]


def _cipher_suite(name: str) -> str:
    if name not in TLS12_SUITES and name not in TLS13_SUITES:
        raise ValueError("not a supported cipher suite (docs/web.md lists them)")
    return name


def _user(name: str) -> str:
    if not re.fullmatch(r"[^:\x00-\x1f\x7f]{1,255}", name):
        raise ValueError("must be a user name without a colon")
    return name


def _password_hash(text: str) -> str:
    found = BCRYPT.fullmatch(text)
    if found is None or not _is_usable(text):
        raise ValueError("is not a bcrypt hash (docs/web.md shows how to make one)")
    if int(found[1]) > MAX_COST:
        raise ValueError(f"has a bcrypt cost above {MAX_COST}: each check would take seconds")
    return text


def _is_usable(text: str) -> bool:
    """Return whether the library accepts the hash, tried at the lowest cost."""
    try:
        is_password(b"", f"{text[:4]}04{text[6:]}".encode())
    except ValueError:
        return False
    return True


Suites = tuple[Annotated[str, Checked(_cipher_suite)], ...]
Sans = tuple[Annotated[str, Meta(min_length=1)], ...]
HeaderText = Annotated[str, HEADER_TEXT]
User = Annotated[str, Checked(_user)]
PasswordHash = Annotated[str, Checked(_password_hash)]


class TlsServerConfig(Section, frozen=True):
    """The agent's certificate, and requirements on the clients'; paths are relative to the file."""

    cert_file: str
    key_file: str
    client_auth_type: ClientAuth = "NoClientCert"
    client_ca_file: str | None = None
    client_allowed_sans: Sans | None = None
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"
    cipher_suites: Suites = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[EllipticCurve, ...] = ()


class Headers(Section, frozen=True):
    """Headers that override the agent's own; an empty value leaves those."""

    content_security_policy: HeaderText = field(default="", name="Content-Security-Policy")
    x_frame_options: Literal["deny", "sameorigin", ""] = field(default="", name="X-Frame-Options")
    x_content_type_options: Literal["nosniff", ""] = field(
        default="", name="X-Content-Type-Options"
    )
    x_xss_protection: HeaderText = field(default="", name="X-XSS-Protection")
    strict_transport_security: HeaderText = field(default="", name="Strict-Transport-Security")

    def as_sent(self) -> dict[str, str]:
        """Return the headers that are set, by the name that is sent."""
        return {name: text for name, text in msgspec.to_builtins(self).items() if text}


class HttpServerConfig(Section, frozen=True):
    """HTTP settings; `http2` is accepted for compatibility only, the server speaks HTTP/1.0."""

    http2: bool = True
    headers: Headers = Headers()


class WebConfig(Section, frozen=True):
    """The whole web configuration file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: Mapping[User, PasswordHash] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return a representation without the users and their hashes."""
        return f"WebConfig({self.tls_server_config!r}, {self.http_server_config!r})"
