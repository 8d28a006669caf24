"""The base of the enumerations of reasons: each member has the reason in words."""

from enum import StrEnum
from typing import Self


class ReasonEnum(StrEnum):
    """Reasons of one kind, each defined as its value for machines and a sentence for people."""

    sentence: str
    """The reason in words."""

    def __new__(cls, value: str, sentence: str) -> Self:
        """Create a member from its value and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member
