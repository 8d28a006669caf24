"""What waits to be written: bounded, so that a disk that hangs costs memory for a while only."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.assessment.markers import Marker
from agent.history.record_types import Row
from agent.history.sample_compression import Chunk

ROW_BYTES = 500  # what a row takes in memory, about


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one target for one transaction: all of it or nothing."""

    target: str
    server: str
    intervals: Sequence[Row] = ()
    fits: Sequence[Row] = ()
    chunks: Sequence[Chunk] = field(default=(), repr=False)
    classes: Sequence[Row] = ()
    markers: Sequence[Marker] = ()
    """Of any target."""
    business: Sequence[Row] = ()

    @property
    def bytes(self) -> int:
        """Approximate size in memory, bytes."""
        kinds = (self.intervals, self.fits, self.chunks, self.classes, self.markers, self.business)
        rows = sum(map(len, kinds))
        return ROW_BYTES * rows + sum(len(chunk.data) for chunk in self.chunks)


class WriteBuffer:
    """Batches in the order in which they came; the oldest are dropped, and counted, for room."""

    def __init__(self, most_bytes: int) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: deque[Batch] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._batches)

    def put(self, batch: Batch) -> None:
        """Add one; never waits."""
        with self._lock:
            self._batches.append(batch)
            self._bytes += batch.bytes
            while self._bytes > self._most_bytes and len(self._batches) > 1:
                self._bytes -= self._batches.popleft().bytes
                self.dropped += 1

    def first(self, count: int) -> list[Batch]:
        """The oldest batches, which stay in the buffer."""
        with self._lock:
            return [batch for batch, _ in zip(self._batches, range(count), strict=False)]

    def done(self, batches: Sequence[Batch]) -> None:
        """These are written; one that was dropped meanwhile was not lost then."""
        with self._lock:
            for batch in batches:
                if self._batches and self._batches[0] is batch:
                    self._bytes -= self._batches.popleft().bytes
                else:
                    self.dropped -= 1
