"""Gzip that is unpacked as it arrives, in pieces whose size does not depend on its compression."""

import zlib
from collections.abc import Iterable, Iterator

CHUNK_BYTES = 65536
"""Bytes of a piece at most."""
GZIP_FORMAT = 31  # zlib's wbits


def unpacked(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of gzip, of which several may follow each other, padded by zeros.

    Raises `EOFError` if its end is missing, and `zlib.error` if it is something else.
    """
    member = zlib.decompressobj(GZIP_FORMAT)
    for piece in packed:
        rest = piece
        while rest:
            if member.eof and not (rest := rest.lstrip(b"\0")):
                break
            if member.eof:
                member = zlib.decompressobj(GZIP_FORMAT)
            yield member.decompress(rest, CHUNK_BYTES)
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise EOFError("the compressed data is cut off")
