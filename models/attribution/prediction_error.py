"""How good predictions of an aggregate are, in the terms of the published results."""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_intervals import Array


@dataclass(frozen=True)
class PredictionError:
    """Predicted against actual; None where it does not exist. A fit to itself is not a check."""

    mape: float | None
    """Mean of |actual − predicted|/actual over intervals with actual > 0."""
    r_squared: float | None
    """Squared correlation."""
    slope: float | None
    """Of the regression of predicted on actual."""

    @classmethod
    def of(cls, actual: Array, predicted: Array) -> "PredictionError":
        """Compare two series of shape (T,)."""
        busy = actual > 0
        a, p = actual[busy], predicted[busy]
        if not len(a):
            return cls(None, None, None)
        mape = float(np.mean(np.abs(a - p) / a))
        da, dp = a - a.mean(), p - p.mean()
        s_aa, s_pp, s_ap = float(da @ da), float(dp @ dp), float(da @ dp)
        tiny = 1e-20 * len(a)
        if len(a) < 2 or s_aa <= tiny * float(a.max()) ** 2:
            return cls(mape, None, None)
        varies = s_pp > tiny * float(np.abs(p).max()) ** 2
        return cls(mape, min(s_ap**2 / (s_aa * s_pp), 1.0) if varies else None, s_ap / s_aa)


def disagreement(one: Array, other: Array) -> float | None:
    """Σ|share − other share| over classes: 0 the same, 2 nothing in common; None without use."""
    a, b = float(one.sum()), float(other.sum())
    if a <= 0 or b <= 0:
        return None
    return float(np.abs(one / a - other / b).sum())
