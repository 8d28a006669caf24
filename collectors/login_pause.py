"""A refused password is not sent again soon, so that the server does not lock the account.

Servers lock an account after a few wrong passwords in a row (FAILED_LOGIN_ATTEMPTS of MySQL,
max_password_errors of MariaDB), or answer each one later (connection_control).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from secrets import token_bytes

from collectors.base import CollectorError, FailureKind

PAUSES = (120.0, 3600.0)
"""Seconds until the same login is sent again: after the first refusal, after each further one."""


class RefusedLogin:
    """The login that was refused last, as a keyed hash, and when it may be sent again.

    It is shared by the sessions of a target, which log in from a thread each.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._key = token_bytes(16)
        self._login = b""
        self._refusals = 0
        self._retry_at = 0.0
        self._message = ""

    @contextmanager
    def one_at_a_time(self, seconds: float) -> Iterator[None]:
        """Wait until no other session logs in, for so long at most: its refusal counts here too."""
        has_turn = self._turn.acquire(timeout=seconds)
        try:
            yield
        finally:
            if has_turn:
                self._turn.release()

    def check(self, user: str, password: str) -> None:
        """Raise the server's refusal again, without the server, where it is too early to ask."""
        is_same = self._hash(user, password) == self._login
        if is_same and time.monotonic() < self._retry_at:
            raise CollectorError(FailureKind.DENIED, self._message)

    def refused(self, user: str, password: str, error: CollectorError) -> CollectorError:
        """Note a refusal by the server; return it with the time of the next attempt."""
        login = self._hash(user, password)
        self._refusals = self._refusals + 1 if login == self._login else 1
        pause = PAUSES[min(self._refusals, len(PAUSES)) - 1]
        self._login, self._retry_at = login, time.monotonic() + pause
        self._message = (
            f"{error}; the agent sends the same password again after {pause / 60:.0f} min or a"
            " reload, so that the server does not lock the account"
        )
        return CollectorError(error.kind, self._message)

    def forget(self) -> None:
        """Forget what was refused: the server has accepted it, or may do so now; any thread."""
        self._login, self._refusals = b"", 0

    def _hash(self, user: str, password: str) -> bytes:
        text = f"{user}\0{password}".encode(errors="surrogateescape")
        return blake2b(text, key=self._key).digest()
