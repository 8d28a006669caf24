"""The classes seen so far: a small number for each, and its properties."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectors.digest_texts import MAX_CHARACTERS, MAX_TEXT_LENGTH, MAX_TEXTS, MAX_TEXTS_PER_QUERY
from models.attribution.class_interval_table import AGENT, OTHER

ClassNumbers = NDArray[np.intp]

OVERFLOW, NONE = "overflow", "none"
"""Used as the digest of several classes together, beside `OTHER` and `AGENT`: statements that found
the server's table full, and statements to which the server gives no digest."""
UNATTRIBUTED = "unattributed"
"""Used as the class of what is attributed to no class."""
COMBINED_CLASSES = (OTHER, AGENT, OVERFLOW, NONE)
TEXTS_KEPT = MAX_TEXTS + MAX_TEXTS_PER_QUERY
CHARACTERS_KEPT = MAX_CHARACTERS + MAX_TEXTS_PER_QUERY * MAX_TEXT_LENGTH
"""No text is dropped before the collector is ready to fetch it again."""


@dataclass(frozen=True, slots=True)
class ClassName:
    """A class as labels show it; the schema is empty if there was none."""

    schema: str
    digest: str


def class_name_of(key: str) -> ClassName:
    """Return the name for a key, `digest|=schema`, or for one of the constants."""
    digest, _, schema = key.partition("|")
    return ClassName(schema.removeprefix("="), digest or OVERFLOW)


class ClassRegistry:
    """Numbers the keys of classes in the order in which they are first seen."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._characters = 0  # of all texts
        self._own: set[str] = set()

    def __len__(self) -> int:
        """Return the number of classes seen."""
        return len(self.keys)

    def number(self, key: str) -> int:
        """Return the number of a key, which is added if it is new."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return found

    def add_texts(self, texts: Mapping[str, str], own: Iterable[str]) -> None:
        """Keep digests' texts, truncated, and which of them are the agent's own."""
        self._own.update(own)
        for digest, text in texts.items():
            self._characters -= len(self._texts.pop(digest, ""))
            self._texts[digest] = text[:MAX_TEXT_LENGTH]
            self._characters += len(self._texts[digest])
        while len(self._texts) > TEXTS_KEPT or self._characters > CHARACTERS_KEPT:
            oldest, oldest_text = self._texts.popitem(last=False)
            self._characters -= len(oldest_text)
            self._own.discard(oldest)

    def text(self, key: str) -> str | None:
        """Return the normalised text of a key's digest; None if it is not known."""
        return self._texts.get(_digest(key))

    def text_for_models(self, key: str) -> str | None:
        """Return the text; if truncated here, it ends like one that the server has truncated."""
        text = self.text(key)
        return text if text is None or len(text) < MAX_TEXT_LENGTH else f"{text} ..."

    def is_own(self, key: str) -> bool:
        """Return whether it is the agent's own statement."""
        return _digest(key) in self._own

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all but these, which are renumbered. Texts stay: each is fetched only once."""
        kept = list(keys)
        self.keys, self._numbers = [], {}
        for key in kept:
            self.number(key)


def _digest(key: str) -> str:
    return key.partition("|")[0]
