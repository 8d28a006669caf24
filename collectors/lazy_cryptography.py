"""Imports PyMySQL without `cryptography`, which takes 8 MiB, until a login needs it.

A login needs it to send a password for caching_sha2_password or sha256_password over a network
without TLS, encrypted by RSA. PyMySQL looks for `cryptography` only when it is imported.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEFERRED_PACKAGE = "cryptography"


@contextmanager
def _hidden_from_import(package: str) -> Iterator[None]:
    """Make a package seem not to be installed in this block, unless it is loaded already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # `import` takes this as absent
    try:
        yield
    finally:
        del sys.modules[package]


with _hidden_from_import(DEFERRED_PACKAGE):
    import pymysql as pymysql
    from pymysql import _auth
    from pymysql.constants import COMMAND
    from pymysql.constants import CR as CR
    from pymysql.constants import ER as ER

COM_QUERY = COMMAND.COM_QUERY

_reload_lock = threading.Lock()


def _encrypt_by_rsa(password: bytes, salt: bytes, public_key: bytes) -> bytes:
    """Encrypt by PyMySQL's own function, which replaces this one when `_auth` is reloaded."""
    with _reload_lock:
        if _auth.sha2_rsa_encrypt is _encrypt_by_rsa:
            importlib.reload(_auth)
    return bytes(_auth.sha2_rsa_encrypt(password, salt, public_key))


if DEFERRED_PACKAGE not in sys.modules:
    _auth.sha2_rsa_encrypt = _encrypt_by_rsa
