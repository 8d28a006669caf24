"""Waits before the next try: longer after each failure, and not in step with other agents."""

from random import Random

_RANDOM = Random()  # noqa: S311  (not used for a secret); its own, so that others' seeds stay


class Backoff:
    """Waits of `first`, twice that, … up to `longest` seconds, each up to a quarter shorter."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def failed(self) -> float:
        """Count a failure and return how long to wait (s)."""
        wait = min(self._longest, self._first * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        return with_jitter(wait)

    def succeeded(self) -> None:
        """Begin with the first wait again."""
        self._failures = 0


def with_jitter(seconds: float) -> float:
    """Shorten a wait at random by up to a quarter, so that many that began at once diverge."""
    return seconds * _RANDOM.uniform(0.75, 1.0)
