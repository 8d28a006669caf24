"""Arrays of random numbers, reproducible by a seed, without numpy.random and its 7 MiB.

The bits are those of Python's own Mersenne Twister (M. Matsumoto, T. Nishimura 1998).
"""

import random

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array

Shape = tuple[int, ...]
DRAW_COUNT = 1000
"""The number of draws of what is uncertain: of futures, and of what a server would do."""
SEED = 20
"""The first numbers are always the same, so that the same data gives the same answer."""


class RandomNumbers:
    """A sequence of random numbers, drawn in arrays of any shape."""

    def __init__(self, seed: int) -> None:
        """Start the sequence of this seed."""
        self._bits = random.Random(seed)  # noqa: S311  (not used for secrets)

    def uniform(self, shape: Shape) -> Array:
        """Draw numbers between 0 and 1, neither included."""
        size = int(np.prod(shape))
        whole = np.frombuffer(self._bits.randbytes(8 * size), dtype="<u8") >> np.uint64(12)
        drawn: Array = (whole.astype(np.float64) + 0.5) * 2.0**-52
        return drawn.reshape(shape)

    def normal(self, shape: Shape) -> Array:
        """Draw standard normal numbers (G. E. P. Box, M. E. Muller 1958)."""
        radius = np.sqrt(-2 * np.log(self.uniform(shape)))
        drawn: Array = radius * np.cos(2 * np.pi * self.uniform(shape))
        return drawn

    def chi_square(self, freedom: float, shape: Shape) -> Array:
        """Draw from the χ² distribution by the approximation of E. Wilson and M. Hilferty (1931).

        From four degrees of freedom on its quantiles are right within 3 % between 5 and 95 %. It
        would make one in 30,000 of them 0, by whose root a t is divided: none is below a thousandth
        of its freedom.
        """
        spread = 2 / (9 * freedom)
        cube = np.maximum(1 - spread + np.sqrt(spread) * self.normal(shape), 0.1) ** 3
        drawn: Array = freedom * cube
        return drawn

    def integers(self, count: int, shape: Shape) -> NDArray[np.intp]:
        """Draw whole numbers from 0 to count − 1."""
        return (count * self.uniform(shape)).astype(np.intp)

    def permutation(self, count: int) -> NDArray[np.intp]:
        """Draw a permutation of the numbers from 0 to count − 1, shape (count,)."""
        return np.argsort(self.uniform((count,)))
