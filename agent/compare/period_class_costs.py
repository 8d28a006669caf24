"""Costs per call of each query class over a period, from the history that an agent writes.

The error is that of a ratio of sums over parts of the period, each left out once (the jackknife:
J. Tukey 1958), increased where neighbouring parts are alike, because a cost drifts. CPU time is
divided over classes by a model, whose error is added.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from agent.compare.periods import Period
from agent.query_classes.class_registry import UNATTRIBUTED
from models.arrays import Array
from models.estimate_difference import ComparedEstimate
from models.robust_regression import persistence

PART_COUNT = 12
"""Parts of a period, each left out once."""
MIN_PARTS = 5
"""A class that was called in fewer parts has no known error."""
CLASS_COUNT = 10
"""Number of classes that are compared."""
STUDENT_90 = {4: 2.13, 5: 2.02, 6: 1.94, 7: 1.89, 8: 1.86, 9: 1.83, 10: 1.81, 11: 1.80}
"""95 % quantile of Student's t by degrees of freedom."""
COLUMNS = ("calls", "statement_time", "cpu", "cpu_error")


@dataclass(frozen=True, eq=False)
class ClassCosts:
    """Sums by class over each part of a period."""

    sums: Mapping[str, Array] = field(repr=False)
    """For each class, shape (len(COLUMNS), parts): calls or seconds, NaN if not known."""

    def largest_classes_with(self, other: "ClassCosts") -> list[str]:
        """Return the names of the classes with the most statement time in either period."""
        taken: dict[str, float] = defaultdict(float)
        for costs in (self, other):
            whole = sum(float(np.nansum(class_sums[1])) for class_sums in costs.sums.values())
            for name, class_sums in costs.sums.items():
                if whole > 0:
                    taken[name] = max(taken[name], float(np.nansum(class_sums[1])) / whole)
        return sorted(taken, key=lambda name: (-taken[name], name))[:CLASS_COUNT]

    def cost(self, name: str, quantity: str) -> ComparedEstimate:
        """Estimate the seconds of `statement_time` or `cpu` that a call took."""
        if name not in self.sums:
            return ComparedEstimate(None)
        row = COLUMNS.index(quantity)
        calls, spent = self.sums[name][0], self.sums[name][row]
        known = (calls > 0) & np.isfinite(spent)
        calls, spent = calls[known], spent[known]
        if calls.sum() <= 0:
            return ComparedEstimate(None)
        value = float(spent.sum() / calls.sum())
        freedom = len(calls) - 1
        if freedom + 1 < MIN_PARTS:
            return ComparedEstimate(value)
        without = (spent.sum() - spent) / (calls.sum() - calls)
        variance = freedom * float(np.var(without)) * persistence(without)
        model = 0.0
        if quantity == "cpu":
            model = float(np.nansum(self.sums[name][3][known]) / calls.sum())
        margin = STUDENT_90[freedom] * float(np.sqrt(variance + model**2))
        return ComparedEstimate(value, max(0.0, value - margin), value + margin)


def class_costs(
    connection: sqlite3.Connection, target: str, server: str, period: Period
) -> ClassCosts:
    """Read what the classes of one server used in a period."""
    since, until = round(1000 * period.start), round(1000 * period.end)
    # calls whose CPU was not known are taken to have cost as much as the others
    rows = connection.execute(
        "SELECT query_class.name, (class_use.at - :since - 1) * :parts / (:until - :since),"
        " SUM(calls), SUM(statement_time),"
        " SUM(cpu) * SUM(calls) / SUM(calls * (cpu IS NOT NULL)),"
        " SUM(cpu_error) * SUM(calls) / SUM(calls * (cpu IS NOT NULL))"
        " FROM class_use JOIN query_class ON query_class.id = class"
        " JOIN target ON target.id = class_use.target"
        " WHERE target.name = :target AND server = :server"
        " AND class_use.at > :since AND class_use.at <= :until GROUP BY 1, 2",
        {"since": since, "until": until, "parts": PART_COUNT, "target": target, "server": server},
    )
    sums: dict[str, Array] = {}
    for name, part, *found in rows:
        if name == UNATTRIBUTED:
            continue
        class_sums = sums.setdefault(name, np.full((len(COLUMNS), PART_COUNT), np.nan))
        class_sums[:, part] = [np.nan if value is None else value for value in found]
    return ClassCosts(sums)
