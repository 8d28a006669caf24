"""The data that waits to be written, bounded in case the disk hangs."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from agent.assessment.deploy_markers import Marker
from agent.history.row_kinds import Row
from agent.history.sample_compression import Chunk

ROW_BYTES = 500  # approximate size of a row in memory


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one target for one transaction: all are written, or none."""

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
    """A queue of batches, limited in size: for room, the oldest are dropped and counted.

    One that is dropped while it is being written is counted once it turns out that it was not.
    """

    def __init__(self, max_bytes: int) -> None:
        self.dropped = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        self._batches: deque[Batch] = deque()
        self._being_written: list[Batch] = []
        self._dropped_meanwhile: list[Batch] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of batches that wait."""
        return len(self._batches)

    def put(self, batch: Batch) -> None:
        """Add a batch; never waits for the disk."""
        with self._lock:
            self._batches.append(batch)
            self._bytes += batch.bytes
            while self._bytes > self._max_bytes and len(self._batches) > 1:
                dropped = self._batches.popleft()
                self._bytes -= dropped.bytes
                if _contains(self._being_written, dropped):
                    self._dropped_meanwhile.append(dropped)
                else:
                    self.dropped += 1

    def oldest(self, count: int) -> list[Batch]:
        """Return the oldest batches, to be written; they stay in the buffer until they are."""
        with self._lock:
            self.dropped += len(self._dropped_meanwhile)
            self._dropped_meanwhile.clear()
            self._being_written = list(islice(self._batches, count))
            return self._being_written

    def remove_written(self, batches: Sequence[Batch]) -> None:
        """Remove written batches; those dropped meanwhile do not count as dropped."""
        with self._lock:
            for batch in batches:
                if self._batches and self._batches[0] is batch:
                    self._bytes -= self._batches.popleft().bytes
            kept = [b for b in self._dropped_meanwhile if not _contains(batches, b)]
            self._dropped_meanwhile, self._being_written = kept, []


def _contains(batches: Sequence[Batch], batch: Batch) -> bool:
    """Return whether it is one of them, and not only equal to one."""
    return any(one is batch for one in batches)
