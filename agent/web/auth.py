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

MAX_PASSWORD_LENGTH = 72  # bytes; bcrypt ignores the rest
REMEMBERED_FAILURES = 256
FAILURE_PAUSE_RATIO = 3.0
"""Pause after a failure, in multiples of the check's CPU time: checks take at most a quarter of one
CPU."""
MAX_PAUSE = 0.5  # seconds


def is_password(password: bytes, hashed: bytes) -> bool:
    """Check a password against its bcrypt hash; raises ValueError if that is not one.

    The library is loaded by the first check: an agent without users does not need its 0.4 MiB.
    """
    import bcrypt

    return bcrypt.checkpw(password, hashed)


class AuthResult(enum.Enum):
    """The result of authenticating a request."""

    ADMITTED = enum.auto()
    UNAUTHORISED = enum.auto()
    BUSY = enum.auto()


class BasicAuthenticator:
    """Checks one password at a time; caches the results under keyed digests, in memory only.

    Known passwords never wait. Others wait in a short queue, behind networks with fewer requests.
    """

    def __init__(
        self,
        check: Callable[[bytes, bytes], bool] = is_password,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._check = check
        self._pause = pause
        self._key = secrets.token_bytes(32)
        self._correct_digests: dict[bytes, bytes] = {}
        self._wrong_digests: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        self._queue = PasswordQueue()

    def authenticate(self, users: Mapping[str, str], header: str, address: str) -> AuthResult:
        """Authenticate a request with that Authorization header, from that address."""
        credentials = _credentials(header)
        if credentials is None:
            return AuthResult.UNAUTHORISED
        user, password = credentials
        hashes = {name.encode(): text.encode() for name, text in users.items()}
        hashed = hashes.get(user) or _decoy_hash(hashes.values())
        digest = self._digest(user, password, hashed)
        if (known := self._cached_result(user, digest)) is None:
            with self._queue.turn(address) as has_turn:
                if has_turn:
                    known = self._check_password(user, password, hashed, digest, address)
            if not has_turn:
                return AuthResult.BUSY
        return AuthResult.ADMITTED if known and user in hashes else AuthResult.UNAUTHORISED

    def _digest(self, user: bytes, password: bytes, hashed: bytes) -> bytes:
        """Return a keyed digest of the checked password, useless without the key."""
        length = len(user).to_bytes(4, "big")
        return hmac.digest(self._key, hashed + length + user + password, "sha256")

    def _cached_result(self, user: bytes, digest: bytes) -> bool | None:
        """Return whether this password was right when last checked; None if not remembered."""
        with self._lock:
            if hmac.compare_digest(self._correct_digests.get(user, b""), digest):
                return True
            if digest in self._wrong_digests:
                self._wrong_digests.move_to_end(digest)
                return False
        return None

    def _check_password(
        self, user: bytes, password: bytes, hashed: bytes, digest: bytes, address: str
    ) -> bool:
        """Check a password against its hash and remember the result; pause after a failure."""
        if (known := self._cached_result(user, digest)) is not None:
            return known
        started = time.thread_time()
        is_right = self._check(password, hashed)
        self._remember(user, digest, is_right)
        if is_right:
            self._queue.succeeded(address)
        else:
            self._pause(min(FAILURE_PAUSE_RATIO * (time.thread_time() - started), MAX_PAUSE))
        return is_right

    def _remember(self, user: bytes, digest: bytes, is_right: bool) -> None:
        """Keep the latest right password of a user, and a limited number of wrong ones."""
        with self._lock:
            if is_right:
                self._correct_digests[user] = digest
                return
            self._wrong_digests[digest] = None
            while len(self._wrong_digests) > REMEMBERED_FAILURES:
                self._wrong_digests.popitem(last=False)


def _credentials(header: str) -> tuple[bytes, bytes] | None:
    """Return user and password of a Basic header (RFC 7617), or None if it is malformed."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip().encode("latin-1"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    user, colon, password = decoded.partition(b":")
    return (user, password[:MAX_PASSWORD_LENGTH]) if colon else None


def _decoy_hash(hashes: Iterable[bytes]) -> bytes:
    """Return a hash of no password, as slow as the slowest, so that the time reveals no user."""
    slowest = max(hashes, key=lambda text: text[4:6])
    return slowest[:7] + b"." * (len(slowest) - 7)
