"""Classes that wait by their text: statements that call a function such as SLEEP."""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from models.arrays import Mask

WAIT_FUNCTIONS = (
    "SLEEP",
    "GET_LOCK",
    "WAIT_FOR_EXECUTED_GTID_SET",
    "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS",
    "MASTER_POS_WAIT",
    "SOURCE_POS_WAIT",
    "MASTER_GTID_WAIT",
)
"""Functions that wait. BENCHMARK is not among them: it computes. RELEASE_LOCK does not wait."""

MAX_TEXTS = 1000
"""Size of the cache of texts and whether they wait: 1 MiB at most for five targets."""

_WAIT_CALL = re.compile(rf"(?<![\w$`.])`?(?:{'|'.join(WAIT_FUNCTIONS)})`?\s*\(", re.IGNORECASE)
_QUOTED_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")


def waits_by_text(texts: Sequence[str | None] | None, classes: int) -> Mask:
    """Find the classes that call a wait function, shape (classes,)."""
    if texts is None:
        return np.zeros(classes, dtype=np.bool_)
    return np.array([bool(text and _calls_wait_function(text)) for text in texts], dtype=bool)


@lru_cache(MAX_TEXTS)
def _calls_wait_function(text: str) -> bool:
    """Return whether the text calls one; cached, since all fits check the same texts."""
    return _WAIT_CALL.search(_QUOTED_STRING.sub("''", text)) is not None
