"""The status of a history: counted, logged when it changes, and published for /metrics."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.history.failures import StoreError, StoreFailure
from agent.support.logs import fields

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreState:
    """The status at one time; times in Unix seconds, None if not known yet."""

    success: bool | None = None  # of the latest attempt to open or to write
    size: int | None = None  # bytes
    rows: Mapping[str, int] = field(default_factory=dict)  # by kind
    oldest: Mapping[str, float] = field(default_factory=dict)
    last_write: float | None = None
    write_seconds: float | None = None
    failures: Mapping[StoreFailure, int] = field(default_factory=dict)
    dropped: int = 0
    corrupt_files: int = 0


class StatusTracker:
    """Keeps the status, and logs the beginning and the end of a failure."""

    def __init__(self, path: Path) -> None:
        self.state = StoreState()
        self._path = path
        self._rows: Counter[str] = Counter()
        self._failures: Counter[StoreFailure] = Counter()
        self._current_failure: StoreFailure | None = None
        self._is_gap_logged = False
        self._dropped = 0

    def opened(self, rows: Mapping[str, int]) -> None:
        """Record that the file is open, and its number of rows of each kind."""
        self._rows = Counter(rows)
        log.info("the history is open", extra=fields(path=self._path, **rows))

    def wrote(self, added: Mapping[str, int], at: float, seconds: float) -> None:
        """Record the rows written at that time (Unix seconds) and the seconds it took."""
        self._rows.update(added)
        self.state = replace(self.state, last_write=at, write_seconds=seconds)

    def succeeded(self) -> None:
        """Record that all pending work has been done."""
        if self._current_failure is not None:
            log.info("the history can be written again", extra=fields(path=self._path))
        self._current_failure, self._is_gap_logged = None, False
        self.state = replace(self.state, success=True)

    def deleted(self, gone: Mapping[str, int]) -> None:
        """Record the number of rows deleted."""
        self._rows.subtract(gone)

    def measured(self, size: int, oldest: Mapping[str, float]) -> None:
        """Record the size in bytes, and the time (Unix seconds) of the oldest row of each kind."""
        self.state = replace(self.state, size=size, rows=dict(self._rows), oldest=oldest)

    def failed(self, error: StoreError) -> None:
        """Record a failure; it is logged if it differs from the one before."""
        self._failures[error.kind] += 1
        self.state = replace(self.state, success=False, failures=dict(self._failures))
        if self._current_failure is not error.kind:
            text = "the history cannot be used, the agent continues without it: %s"
            log.error(text, error, extra=fields(kind=error.kind))
        self._current_failure = error.kind

    def renamed_corrupt(self, error: StoreError, aside: Path) -> None:
        """Record that the file was corrupt and was renamed."""
        text = "the history was corrupt and was renamed; a new one was started: %s"
        log.error(text, error, extra=fields(aside=aside))
        self.state = replace(self.state, corrupt_files=self.state.corrupt_files + 1)

    def dropped(self, batches: int) -> None:
        """Record the total of batches dropped for lack of room."""
        if batches > self._dropped and not self._is_gap_logged:
            self._is_gap_logged = True
            log.error(
                "the history will have a gap: its write buffer is full",
                extra=fields(batches=batches),
            )
        self._dropped = batches
