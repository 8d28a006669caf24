"""Contradictions between keys of a web configuration, and values that cannot be supported.

Like those of `agent.config.contradictions`, they are checked independently of the types, so that a
wrong type elsewhere hides none of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config.base_model import Mistake
from agent.config.settings import MAX_PEM_BYTES
from agent.config.systemd_credentials import readable_path
from agent.web.config import TLS12_SUITES
from agent.web.tls import authority_mistake, pair_mistake
from collectors.regular_file import read_whole

FILES = ("cert_file", "key_file", "client_ca_file")
VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
UNVERIFYING = ("RequireAnyClientCert", "RequireClientCert")
OLD_VERSIONS = ("TLS10", "TLS11")


def mistakes(data: dict[Any, Any], folder: Path) -> Iterator[Mistake]:
    """Yield each mistake with its key path; `data` may have any shape.

    Paths are relative to `folder`.
    """
    tls = data.get("tls_server_config")
    if isinstance(tls, dict):
        for rule in (_file_mistakes, _client_auth_mistakes, _protocol_mistakes):
            for key, text in rule(tls, folder):
                yield ("tls_server_config", *key), text
    if "tls_server_config" in data and tls is None:
        yield ("tls_server_config",), "is empty; remove the key to serve without TLS"
    if "basic_auth_users" in data and not data["basic_auth_users"]:
        yield ("basic_auth_users",), "is empty; remove the key to require no password"


def _file_mistakes(tls: dict[Any, Any], folder: Path) -> Iterator[Mistake]:
    paths = {
        key: readable_path(folder / tls[key]) for key in FILES if isinstance(tls.get(key), str)
    }
    unusable = {key: text for key, path in paths.items() if (text := _read_error(path))}
    for key, text in unusable.items():
        yield (key,), text
    usable = {key: path for key, path in paths.items() if key not in unusable}
    if "cert_file" in usable and "key_file" in usable:
        yield from pair_mistake(usable["cert_file"], usable["key_file"])
    if "client_ca_file" in usable:
        yield from authority_mistake(usable["client_ca_file"])


def _read_error(path: Path) -> str | None:
    try:
        read_whole(path, MAX_PEM_BYTES)
    except OSError as error:
        return f"cannot be read: {error.strerror}; check the path and its permissions"
    except ValueError:
        return "is not a valid file name"
    return None


def _client_auth_mistakes(tls: dict[Any, Any], folder: Path) -> Iterator[Mistake]:
    """Check client certificates: every key that is given must have an effect."""
    del folder
    kind = tls.get("client_auth_type", "NoClientCert")
    if kind in UNVERIFYING:
        yield (
            ("client_auth_type",),
            "accepts any certificate; use RequireAndVerifyClientCert",
        )
        return
    has_authority = tls.get("client_ca_file") is not None
    if kind in VERIFYING and not has_authority:
        yield ("client_ca_file",), "missing: client_auth_type verifies against this authority"
    if kind in ("NoClientCert", "RequestClientCert") and has_authority:
        yield ("client_ca_file",), "has no effect unless client_auth_type verifies"
    if tls.get("client_allowed_sans") is not None:
        yield from _san_mistakes(kind, tls["client_allowed_sans"])


def _san_mistakes(kind: object, sans: object) -> Iterator[Mistake]:
    if kind != "RequireAndVerifyClientCert":
        yield ("client_allowed_sans",), "needs client_auth_type RequireAndVerifyClientCert"
    elif sans == []:
        yield ("client_allowed_sans",), "is empty; leave the key out to allow every name"


def _protocol_mistakes(tls: dict[Any, Any], folder: Path) -> Iterator[Mistake]:
    del folder
    for key in ("min_version", "max_version"):
        if tls.get(key) in OLD_VERSIONS:
            yield (key,), "TLS 1.0 and 1.1 are not supported; use 'TLS12' or 'TLS13'"
    if tls.get("min_version") == "TLS13" and tls.get("max_version") == "TLS12":
        yield ("max_version",), "is below min_version"
    suites = tls.get("cipher_suites")
    if tls.get("min_version") != "TLS13" and isinstance(suites, list) and suites:
        named = {name for name in suites if isinstance(name, str)}
        if named.isdisjoint(TLS12_SUITES):
            yield ("cipher_suites",), "has no TLS 1.2 suite; add one, or set min_version: TLS13"
    curves = tls.get("curve_preferences")
    if isinstance(curves, list) and len(curves) > 1:
        yield ("curve_preferences",), "only one curve is supported; give one, or remove the key"
