"""The classes seen so far: a small number for each, and its properties."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectors.digests import MAX_CHARACTERS, MAX_TEXT_LENGTH, MAX_TEXTS, TEXTS_AT_ONCE
from models.attribution.class_time_series import AGENT, OTHER

Numbers = NDArray[np.intp]

OVERFLOW, NONE = "overflow", "none"
"""In place of a digest where several classes are one, beside `OTHER` and `AGENT`: statements that
found the server's table full, and statements that the server gives no digest."""
NOBODY = "unattributed"
"""In place of one for use that is attributed to no class."""
SEVERAL = (OTHER, AGENT, OVERFLOW, NONE)
TEXTS_KEPT = MAX_TEXTS + TEXTS_AT_ONCE
CHARACTERS_KEPT = MAX_CHARACTERS + TEXTS_AT_ONCE * MAX_TEXT_LENGTH
"""No text goes before the collector is ready to fetch it again."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class as labels show it; an empty schema: there was none."""

    schema: str
    digest: str


def name_of(key: str) -> Name:
    """The name behind a key, `digest|=schema`, or behind one of the constants."""
    digest, _, schema = key.partition("|")
    return Name(schema.removeprefix("="), digest or OVERFLOW)


class ClassRegistry:
    """Numbers for keys, in the order in which they were met."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._letters = 0  # of all texts
        self._own: set[str] = set()

    def __len__(self) -> int:
        """How many classes were met."""
        return len(self.keys)

    def number(self, key: str) -> int:
        """The number of a key, a new one if need be."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return found

    def add_texts(self, texts: Mapping[str, str], own: Iterable[str]) -> None:
        """Keep digests' texts, cut, and which of them are the agent's own."""
        self._own.update(own)
        for digest, text in texts.items():
            self._letters -= len(self._texts.pop(digest, ""))
            self._texts[digest] = text[:MAX_TEXT_LENGTH]
            self._letters += len(self._texts[digest])
        while len(self._texts) > TEXTS_KEPT or self._letters > CHARACTERS_KEPT:
            gone, words = self._texts.popitem(last=False)
            self._letters -= len(words)
            self._own.discard(gone)

    def text(self, key: str) -> str | None:
        """The normalised text of a key's digest."""
        return self._texts.get(_digest(key))

    def text_for_models(self, key: str) -> str | None:
        """The same; a text that was cut here ends as one does that the server has cut."""
        text = self.text(key)
        return text if text is None or len(text) < MAX_TEXT_LENGTH else f"{text} ..."

    def is_own(self, key: str) -> bool:
        """Whether it is the agent's own statement."""
        return _digest(key) in self._own

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all but these; their numbers are new. Texts stay: each is fetched only once."""
        kept = list(keys)
        self.keys, self._numbers = [], {}
        for key in kept:
            self.number(key)


def _digest(key: str) -> str:
    return key.partition("|")[0]
