"""Types of arrays, and of what is computed for a number as for an array."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Quantity = TypeVar("Quantity", float, Array)
"""A function of a `Quantity` returns a number for a number, and an array for an array."""
