"""Numbers that arithmetic with floats needs, and the quantiles that estimates are reported by."""

TINY = 1e-300
"""In place of a divisor that may be 0."""
ROUNDING = 1e-12
"""A part of a number that is no more than rounding."""
NEGLIGIBLE = 1e-9
"""A part of a number that changes nothing which is shown; a ridge that keeps equations regular."""
QUANTILES = (0.05, 0.5, 0.95)
"""What an estimate is reported by: the lower bound, the median and the upper bound."""
