"""What no digest covers: the sums of all statements less what the digests' rows tell.

MariaDB has no digest for statements of the binary protocol. Their time is not that of the others.
"""

import numpy as np

from collectors.digest_table import Array


class UndigestedStatements:
    """Follows both sums from reading to reading.

    All statements are read first, so one that ends between the two is in the digests alone: what
    the digests are ahead is remembered, and counts in no later reading.
    """

    def __init__(self, everything: Array | None) -> None:
        self._last = everything
        self._ahead: Array = np.zeros(0)

    def take(self, everything: Array | None, covered: Array) -> Array | None:
        """What rose without the digests, shape (names,), at least 0; None where it is not known.

        `covered` is by how much the digests rose since the reading before.
        """
        before, self._last = self._last, everything
        if before is None or everything is None:
            return None
        if (everything < before).any():  # somebody emptied the table
            self._ahead = np.zeros(0)
            return None
        ahead = self._ahead if self._ahead.size else np.zeros_like(covered)
        rest = everything - before - covered - ahead
        self._ahead = np.maximum(-rest, 0.0)
        return np.maximum(rest, 0.0)
