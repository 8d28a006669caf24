"""A predicted number with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PredictedValue:
    """A number with its 5 % and 95 % quantile; `upper` is None where it is unbounded."""

    value: float
    lower: float
    upper: float | None
