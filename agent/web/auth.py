"""Users with bcrypt passwords, checked so that many requests cannot take all the CPU."""

import base64
import binascii
import enum
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from agent.web.password_queue import PasswordQueue

MAX_PASSWORD_LENGTH = 72  # bytes; what bcrypt looks at
REMEMBERED_FAILURES = 256
PAUSE = 3.0  # after a failure, times what the check took: at most a quarter of one CPU
MAX_PAUSE = 0.5  # seconds


def is_password(password: bytes, hashed: bytes) -> bool:
    """Check a password against its bcrypt hash; raises ValueError where that is not one.

    The library is loaded by the first check: an agent without users does not need its 0.4 MiB.
    """
    import bcrypt

    return bcrypt.checkpw(password, hashed)


class Verdict(enum.Enum):
    """What becomes of a request."""

    WELCOME = enum.auto()
    STRANGER = enum.auto()
    BUSY = enum.auto()


class BasicAuthenticator:
    """Checks one password at a time; remembers, keyed and in memory only, what it has checked.

    Known passwords never wait. Others wait in a short queue, behind networks that have asked less.
    """

    def __init__(
        self,
        check: Callable[[bytes, bytes], bool] = is_password,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._check = check
        self._pause = pause
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, bytes] = {}
        self._failed: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        self._queue = PasswordQueue()

    def verdict(self, users: Mapping[str, str], header: str, address: str) -> Verdict:
        """On a request with that Authorization header, from that address."""
        found = _credentials(header)
        if found is None:
            return Verdict.STRANGER
        user, password = found
        hashes = {name.encode(): text.encode() for name, text in users.items()}
        hashed = hashes.get(user) or _decoy(hashes.values())
        mark = self._mark(user, password, hashed)
        if (known := self._remembered(user, mark)) is None:
            with self._queue.turn(address) as has_turn:
                if has_turn:
                    known = self._checked(user, password, hashed, mark, address)
            if not has_turn:
                return Verdict.BUSY
        return Verdict.WELCOME if known and user in hashes else Verdict.STRANGER

    def _mark(self, user: bytes, password: bytes, hashed: bytes) -> bytes:
        """A keyed digest of the checked password, useless without the key."""
        length = len(user).to_bytes(4, "big")
        return hmac.digest(self._key, hashed + length + user + password, "sha256")

    def _remembered(self, user: bytes, mark: bytes) -> bool | None:
        with self._lock:
            if hmac.compare_digest(self._known.get(user, b""), mark):
                return True
            if mark in self._failed:
                self._failed.move_to_end(mark)
                return False
        return None

    def _checked(
        self, user: bytes, password: bytes, hashed: bytes, mark: bytes, address: str
    ) -> bool:
        if (known := self._remembered(user, mark)) is not None:
            return known
        started = time.thread_time()
        is_right = self._check(password, hashed)
        self._remember(user, mark, is_right)
        if is_right:
            self._queue.succeeded(address)
        else:
            self._pause(min(PAUSE * (time.thread_time() - started), MAX_PAUSE))
        return is_right

    def _remember(self, user: bytes, mark: bytes, is_right: bool) -> None:
        with self._lock:
            if is_right:
                self._known[user] = mark
                return
            self._failed[mark] = None
            while len(self._failed) > REMEMBERED_FAILURES:
                self._failed.popitem(last=False)


def _credentials(header: str) -> tuple[bytes, bytes] | None:
    """User and password of a Basic header (RFC 7617), or None where it is malformed."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip().encode("latin-1"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    user, colon, password = decoded.partition(b":")
    return (user, password[:MAX_PASSWORD_LENGTH]) if colon else None


def _decoy(hashes: Iterable[bytes]) -> bytes:
    """A hash of no password, as slow as the slowest, so that the time reveals no user."""
    slowest = max(hashes, key=lambda text: text[4:6])
    return slowest[:7] + b"." * (len(slowest) - 7)
