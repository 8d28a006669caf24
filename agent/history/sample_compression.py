"""Compression of samples: some of one collector as one blob, a tenth of their separate size.

The times (ms) and every name's values are columns of float64. Their bytes are ordered by position
in the number, so that bytes that change little are adjacent, and then compressed.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.history.failures import StoreError, StoreFailure

COMPRESSION_LEVEL = 3  # of zlib; a higher one takes twice the time and saves a few per cent
NUMBER_BYTES = 8
MAX_UNPACKED_BYTES = 2**24  # bytes; 100 samples of 100 names take 80 KiB


@dataclass(frozen=True, slots=True)
class Chunk:
    """Packed samples of one collector; `first` and `at`, the time of the last, in ms since 1970."""

    collector: str
    at: int
    first: int
    count: int
    names: str  # JSON
    data: bytes = field(repr=False)


TimedValues = tuple[int, Mapping[str, float]]
"""The time in ms since 1970, and the values by name."""


def pack(collector: str, readings: Sequence[TimedValues]) -> Chunk:
    """Pack readings, at least one, in the order of their time, into one chunk."""
    names = sorted({name for _, values in readings for name in values})
    times = [at for at, _ in readings]
    columns = [times, *([values.get(n, np.nan) for _, values in readings] for n in names)]
    table = np.array(columns, dtype="<f8")
    byte_planes = table.view(np.uint8).reshape(-1, NUMBER_BYTES).T
    data = zlib.compress(byte_planes.tobytes(), COMPRESSION_LEVEL)
    return Chunk(collector, times[-1], times[0], len(times), json.dumps(names), data)


def unpack(chunk: Chunk) -> Iterator[TimedValues]:
    """Yield the readings as they were packed; raises `StoreError` if the chunk is damaged."""
    try:
        names = json.loads(chunk.names)
        size = NUMBER_BYTES * (1 + len(names)) * chunk.count
        if not 0 < size <= MAX_UNPACKED_BYTES:
            raise ValueError(f"{size} bytes")
        data = _decompress(chunk.data, size)
        byte_planes = np.frombuffer(data, dtype=np.uint8).reshape(NUMBER_BYTES, -1)
        table = np.ascontiguousarray(byte_planes.T).view("<f8").reshape(1 + len(names), chunk.count)
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        text = f"samples of {chunk.collector} cannot be unpacked ({error})"
        raise StoreError(StoreFailure.CORRUPT, text) from None
    times, values = table[0], table[1:]
    for k in range(chunk.count):
        known = np.isfinite(values[:, k])
        yield (
            int(times[k]),
            {
                name: float(v)
                for name, v, is_known in zip(names, values[:, k], known, strict=True)
                if is_known
            },
        )


def _decompress(packed: bytes, size: int) -> bytes:
    """Decompress to exactly `size` bytes; raises zlib.error or ValueError for another size."""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(packed, size + 1)  # bounded: it may be a decompression bomb
    if len(data) != size or not unpacking.eof:
        raise ValueError(f"not the {size} bytes that were packed")
    return data
