"""The capacity of simulated servers, each after a simulated day, beside the truth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.capacity.assess import assess_capacity
from models.capacity.result import Capacity
from models.usl.fit import UslFit, fit_bayes
from testbed.simulated.day_scenarios import DayScenario, scenarios, simulate_day


@dataclass(frozen=True)
class Trial:
    """One server and one day: the prediction and the truth."""

    scenario: str
    reach: float
    truth: float
    capacity: Capacity
    law: UslFit | None

    @property
    def error(self) -> float:
        """Relative error of the predicted capacity; nan where there is none."""
        value = self.capacity.value
        return np.nan if value is None else value / self.truth - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        low, high = self.capacity.lower, self.capacity.upper
        return low is not None and low <= self.truth <= (high or np.inf)


def trials(servers: int, seed: int = 1) -> Iterator[Trial]:
    """Assess that many servers per scenario and highest load."""
    for number, scenario in enumerate(scenarios()):
        for reach in scenario.reaches:
            for i in range(servers):
                rng = np.random.default_rng([seed, number, int(100 * reach), i])
                yield trial(scenario, reach, rng)


def trial(scenario: DayScenario, reach: float, rng: np.random.Generator) -> Trial:
    """Draw a server and its day, and assess it; beside it, the law alone."""
    server = scenario.server(rng)
    seen = simulate_day(server, scenario.settings(reach), rng)
    seen = seen.thinned()
    capacity = assess_capacity(seen)
    loaded = seen.select(seen.loaded)
    law = None
    if len(loaded) >= 5:
        law = fit_bayes(loaded.concurrency, loaded.throughput, n_variance=loaded.n_variance)
    return Trial(scenario.name, reach, server.capacity, capacity, law)


def passes_gate(law: UslFit | None) -> bool:
    """Return whether the law alone would be trusted: 70 % of the peak seen, X95/X05 below 1.5."""
    if law is None or law.x_max_median is None or law.x_max_interval is None:
        return False
    return law.x_observed_max >= 0.7 * law.x_max_median and law.x_max_interval.ratio < 1.5
