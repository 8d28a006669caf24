"""How long to wait before the next try: longer after each failure, never in step with others."""

import random


class Backoff:
    """Waits of `first`, twice that, … up to `longest` seconds, each up to a quarter shorter."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def failed(self) -> float:
        """Count a failure; answer how long to wait (s)."""
        wait = min(self._longest, self._first * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        return spread(wait)

    def succeeded(self) -> None:
        """Start over."""
        self._failures = 0


def spread(seconds: float) -> float:
    """A wait that is up to a quarter shorter: many that began at once do not stay in step."""
    return seconds * random.uniform(0.75, 1.0)  # noqa: S311  (no secret hangs on it)
