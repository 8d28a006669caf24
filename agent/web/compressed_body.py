"""The body of a response, compressed for the clients that accept it (RFC 9110, 12.5.3)."""

import re
import threading
import zlib

from agent.support.gzip_stream import GZIP_FORMAT

LEVEL = 1
"""zlib's fastest: a scrape becomes a sixth or less, for a twentieth of the CPU of making it."""
MIN_BYTES = 1024
"""A shorter body is in the same one packet of a network either way."""
CODING = re.compile(r"(?:^|,)\s*(x-gzip|gzip|identity|\*)\s*([^,]*)", re.IGNORECASE)
WEIGHT = re.compile(r"(?:;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?\s*", re.IGNORECASE | re.ASCII)
VARY = ("Vary", "Accept-Encoding")
GZIP = ("Content-Encoding", "gzip")


class Body:
    """The bytes, and their gzip from when a client first asks for it: compressed once for all."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._lock = threading.Lock()
        self._gzip = b""

    def encoded(self, accepted: str) -> tuple[bytes, list[tuple[str, str]]]:
        """Return what a client with that Accept-Encoding gets, and the headers that say so."""
        if len(self.plain) < MIN_BYTES:
            return self.plain, []
        if not accepts_gzip(accepted):
            return self.plain, [VARY]
        with self._lock:
            self._gzip = self._gzip or compressed(self.plain)
            return self._gzip, [VARY, GZIP]


def compressed(plain: bytes) -> bytes:
    """Return gzip without a time or a name: of equal bytes it is equal."""
    member = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_FORMAT)
    return member.compress(plain) + member.flush()


def accepts_gzip(accepted: str) -> bool:
    """Return whether an Accept-Encoding allows gzip, and does not prefer the plain bytes.

    What is malformed is not accepted.
    """
    weights: dict[str, float] = {}
    for coding, parameter in CODING.findall(accepted):
        weight = WEIGHT.fullmatch(parameter)
        weights[coding.lower().removeprefix("x-")] = float(weight[1] or 1) if weight else 0.0
    gzip = weights.get("gzip", weights.get("*", 0.0))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)
