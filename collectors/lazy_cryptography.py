"""PyMySQL, without `cryptography` for as long as no login needs it: 8 MiB less.

One does: a password for caching_sha2_password or sha256_password over a network without TLS, which
the library encrypts by RSA. It looks for `cryptography` when it is imported, and never again.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NEEDED_LATE = "cryptography"


@contextmanager
def _as_if_absent(package: str) -> Iterator[None]:
    """In this block the module cannot be imported, unless it is loaded already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # what `import` takes as absent
    try:
        yield
    finally:
        del sys.modules[package]


with _as_if_absent(NEEDED_LATE):
    import pymysql as pymysql
    from pymysql import _auth
    from pymysql.constants import COMMAND
    from pymysql.constants import CR as CR
    from pymysql.constants import ER as ER

COM_QUERY = COMMAND.COM_QUERY

_loading = threading.Lock()


def _encrypt_by_rsa(password: bytes, salt: bytes, public_key: bytes) -> bytes:
    """Stands in for the library's own function, and gives way to it: `_auth` is reloaded."""
    with _loading:
        if _auth.sha2_rsa_encrypt is _encrypt_by_rsa:
            importlib.reload(_auth)
    return bytes(_auth.sha2_rsa_encrypt(password, salt, public_key))


if NEEDED_LATE not in sys.modules:
    _auth.sha2_rsa_encrypt = _encrypt_by_rsa
