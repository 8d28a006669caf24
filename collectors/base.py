"""Types that all collectors share: samples, features and failures.

A collector module has one function, `prepare`, which examines the source once (after every
connect) and returns a `Prepared`: how to read the source, and which features are there or absent.

All errors of this package are of one class, `CollectorError`, with a `FailureKind` of a fixed set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

MILLISECOND, PICOSECOND = 1e-3, 1e-12
"""Seconds."""
Values = Mapping[str, float]
"""Values read at one instant, by name. A name that could not be read is absent."""
NO_VALUES: Values = {}


class FailureKind(StrEnum):
    """Why a source could not be read: the label of `collector_failures_total`."""

    REFUSED = "refused"  # nothing listens there, or the network rejects the connection
    DENIED = "denied"  # the server rejects this account
    UNTRUSTED = "untrusted"  # no TLS, an untrusted certificate, or a password in plain text
    TIMEOUT = "timeout"  # no answer within the client's time limit
    LOST = "lost"  # the connection broke
    OVERSIZED = "oversized"  # more rows, columns or bytes than the statement can return
    SLOW = "slow"  # the server aborted the statement at its time limit
    PRIVILEGE = "privilege"  # the account may not read this source
    UNREADABLE = "unreadable"  # any other answer that cannot be used

    @property
    def ends_session(self) -> bool:
        """Whether the connection is unusable after such a failure."""
        return self not in (FailureKind.SLOW, FailureKind.PRIVILEGE, FailureKind.UNREADABLE)


class CollectorError(Exception):
    """A source could not be read; the message is one line, with the remedy where there is one."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Sample:
    """The values that one collector read at one instant.

    `at` is in seconds of the monotonic clock: at first when the answer had arrived, `took` seconds
    after the request; the target's session changes it to when the values were read.
    """

    collector: str
    at: float
    values: Values
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a source may lack, the reason, and the statement that enables it."""

    name: str
    enabled: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of `prepare`: how to read the source (None: it cannot be read), its features."""

    read: Callable[[], Values] | None
    features: tuple[Feature, ...]
    features_read: Callable[[], tuple[Feature, ...]] = tuple
    """Return the features of which only a reading tells; none before the first."""
