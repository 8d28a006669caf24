"""What all collectors share: the sample, absent features, failures.

A collector module has one function, `prepare`, which looks at the source once (after every
connect) and answers with a `Prepared`: how to read the source, and the features found or missed.

The errors of this package are one class: `CollectorError`, with a `FailureKind` of a bounded set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

Values = Mapping[str, float]
"""The values read at one instant, by name. An absent name could not be read."""


class FailureKind(StrEnum):
    """Why a source could not be read: the label of `collector_failures_total`."""

    REFUSED = "refused"  # nothing listens, or the network says no
    DENIED = "denied"  # the server refuses this account
    UNTRUSTED = "untrusted"  # no TLS, no certificate of the right authority, or a plain password
    TIMEOUT = "timeout"  # no answer within the client's time limit
    LOST = "lost"  # the connection broke
    OVERSIZED = "oversized"  # more rows, columns or bytes than what was asked can explain
    SLOW = "slow"  # the server itself cut the statement off at its time limit
    PRIVILEGE = "privilege"  # the account may not read this
    UNREADABLE = "unreadable"  # any other answer that cannot be used

    @property
    def ends_session(self) -> bool:
        """Whether the connection cannot be used any more."""
        return self not in (FailureKind.SLOW, FailureKind.PRIVILEGE, FailureKind.UNREADABLE)


class CollectorError(Exception):
    """A source could not be read; the message is one line, with the remedy where there is one."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Sample:
    """The values that one collector read at one instant.

    `at` is on the monotonic clock, s: first when the answer had arrived, `took` seconds after it
    was asked for; from the session on when the values were read.
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
    """A collector that has looked at its source: how to read it (None: it cannot), its features."""

    read: Callable[[], Values] | None
    features: tuple[Feature, ...]
