"""TLS of the web server: the context of a configuration, and checks of certificates."""

import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config.base_model import Mistake
from agent.config.systemd_credentials import readable_path
from agent.web.config import TLS12_SUITES, TlsServerConfig

VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}
CLIENT_VERIFY_MODES = {
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def tls_context(tls: TlsServerConfig, folder: Path) -> ssl.SSLContext:
    """Return the context of all connections; raises OSError if a file cannot be used.

    No session is resumed by ticket, so that each connection shows its certificate again.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.min_version]
    context.maximum_version = VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    certificate, key = (readable_path(folder / name) for name in (tls.cert_file, tls.key_file))
    _load_pair(context, certificate, key)
    if tls.client_ca_file is not None:
        context.load_verify_locations(readable_path(folder / tls.client_ca_file))
    context.verify_mode = CLIENT_VERIFY_MODES.get(tls.client_auth_type, ssl.CERT_NONE)
    if suites := [TLS12_SUITES[name] for name in tls.cipher_suites if name in TLS12_SUITES]:
        context.set_ciphers(":".join(suites))
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES.get(curve, curve))
    return context


def pair_mistake(certificate: Path, key: Path) -> Iterator[Mistake]:
    """Yield what is wrong with a certificate and its key, if anything."""
    try:
        _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except ssl.SSLError as error:
        if _holds_no_certificate(certificate):
            yield ("cert_file",), "contains no PEM certificate"
        elif error.reason == "KEY_VALUES_MISMATCH":
            yield ("key_file",), "is not the key of cert_file"
        elif error.reason and error.reason.endswith(("TOO_SMALL", "TOO_WEAK")):
            yield ("cert_file",), f"is too weak for OpenSSL ({error.reason})"
        else:
            yield ("key_file",), "contains no PEM private key without a password"
    except OSError as error:
        yield (
            ("cert_file",),
            f"cannot be read: {error.strerror}; check the path and its permissions",
        )


def authority_mistake(path: Path) -> Iterator[Mistake]:
    """Yield what is wrong with the clients' certificate authority, if anything."""
    if _holds_no_certificate(path):
        yield ("client_ca_file",), "contains no PEM certificate"


def has_allowed_name(connection: ssl.SSLSocket, names: tuple[str, ...] | None) -> bool:
    """Return whether the client's certificate has one of those names (SAN), exactly."""
    if names is None:
        return True
    certificate: dict[str, Any] = connection.getpeercert() or {}
    shown = {_canonical(str(name)) for _, name in certificate.get("subjectAltName", ())}
    return not shown.isdisjoint(map(_canonical, names))


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    context.load_cert_chain(certificate, key, password=lambda: "")  # never ask at a terminal


def _holds_no_certificate(path: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except (OSError, ValueError):
        return True
    return False


def _canonical(name: str) -> str:
    """Return the name, IP addresses in canonical form: OpenSSL expands those of IPv6."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name
