"""Statements without a digest: the sums of all statements less those of the digests' rows.

MariaDB has no digest for statements of the binary protocol. Their time belongs to no other class.
"""

from collections.abc import Sequence

import numpy as np

from collectors.digest_table import COUNTERS, CPU_COLUMN, STATEMENT_TIME, Array

CALLS = COUNTERS["COUNT_STAR"]
MEASURED = (STATEMENT_TIME, COUNTERS[CPU_COLUMN])
"""Columns of which every statement has some, where the server measures them at all."""


class UndigestedStatements:
    """The latest sums of all statements, and how far those of the digests' rows are ahead.

    The sums of all statements are read first, so a statement that ends between the two readings is
    only in those of the digests: their excess is remembered, and not counted in a later reading.
    The first time the digests are read first; otherwise what ends in between would count as having
    no digest.
    """

    def __init__(self, everything: Array | None) -> None:
        self._last = everything
        self._ahead: Array | float = 0.0

    def is_unmeasured(self, names: Sequence[str], everything: Array | None) -> bool:
        """Return whether statements have ended since, all without a time that is a column.

        `everything`: running totals of all statements, shape (names,).
        """
        if self._last is None or everything is None:
            return False
        risen = dict(zip(names, everything - self._last, strict=False))
        return risen.get(CALLS, 0.0) > 0 and any(risen.get(name) == 0 for name in MEASURED)

    def take(self, everything: Array | None, covered: Array | None) -> Array | None:
        """Return the rise of what has no digest, shape (names,), at least 0; None if unknown.

        `covered` is the increase of the digests since the previous reading; None: not of all.
        """
        before, self._last = self._last, everything
        if before is None or everything is None or covered is None:
            return None
        if (everything < before).any():  # the table was emptied
            self._ahead = 0.0
            return None
        rest = everything - before - covered - self._ahead
        self._ahead = np.maximum(-rest, 0.0)
        return np.maximum(rest, 0.0)
