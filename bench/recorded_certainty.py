"""The probability of saturation on recorded servers, compared with what clients could get.

    python bench/recorded_certainty.py

A load saturates a server if it is more than the clients' connections could get. Each cell is of the
loads with about one probability: the share of them that saturates, which should be between the two
probabilities. Below the table is how many recordings have a load far from its end of which the
opposite is called certain.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.saturation_probability import GROWTHS, is_contradicted
from testbed.recorded.peak_predictions import clients_peak, levels_of, saved, seen_below

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
LOADS = np.array([0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.1, 1.15, 1.25, 1.4, 1.6])
"""Shares of what the clients could get; as many above it as below."""
CLASSES = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Probabilities between which the table's columns lie."""
FAR_BELOW, FAR_ABOVE = 0.8, 1.25
CERTAIN = 0.95


class Certainty(NamedTuple):
    """The probability that each of the loads saturates the server, at one level of a recording."""

    recording: str
    cap: float
    probability: Array | None
    """P(C ≤ x), shape of LOADS; None where the points contradict the model."""
    is_exported_wrong: bool = False
    """Whether one that the agent exports at the highest load would be certain and wrong."""

    @property
    def is_wrong(self) -> bool:
        """Whether one of a load is certain and wrong."""
        return self.probability is not None and is_wrong_and_certain(LOADS, self.probability)


def is_wrong_and_certain(loads: Array, probability: Array) -> bool:
    """Return whether one is nearly 0 or 1 for a load (share of the peak) far on the other side."""
    too_early = probability[loads <= FAR_BELOW] >= CERTAIN
    too_late = probability[loads >= FAR_ABOVE] <= 1 - CERTAIN
    return bool(too_early.any() or too_late.any())


def certainties() -> Iterator[Certainty]:
    """Assess each recording at each level up to 90 %."""
    for file in sorted([*RECORDED.glob("real/*.json.gz"), *RECORDED.glob("zoo/*.json.gz")]):
        seen = saved(file)
        for part in levels_of(seen):
            if part["cap"] > 1:
                continue
            window, peak = seen_below(seen, part), clients_peak(seen, part)[0]
            found = assess_capacity(observations(window, ConcurrencySource.STATEMENT_TIME))
            name, probability, is_wrong = file.name.removesuffix(".json.gz"), None, False
            if found.distribution is not None and not is_contradicted(found):
                probability = found.distribution.at_most(LOADS * peak)
                grown = np.array(GROWTHS) * window["throughput"].max()
                is_wrong = is_wrong_and_certain(grown / peak, found.distribution.at_most(grown))
            yield Certainty(name, part["cap"], probability, is_wrong)


def recorded_certainty() -> Iterator[str]:
    """Yield a table: of the loads with about each probability, the share that saturates."""
    found = list(certainties())
    edges = ["0", *(f"{edge:g}" for edge in CLASSES), "1"]
    yield "| seen up to | " + " | ".join(f"to {edge}" for edge in edges[1:]) + " | not known |"
    yield "|---" * (len(edges) + 1) + "|"
    for cap in sorted({each.cap for each in found}):
        level = [each for each in found if each.cap == cap]
        known = [each.probability for each in level if each.probability is not None]
        groups = np.digitize(np.array(known), CLASSES)
        saturates = np.broadcast_to(LOADS >= 1, groups.shape)
        cells = [share(saturates[groups == group]) for group in range(len(edges) - 1)]
        unknown = f"{len(level) - len(known)} of {len(level)}"
        yield f"| {cap:.0%} | " + " | ".join(cells) + f" | {unknown} |"
    wrong = [f"{each.recording} at {each.cap:.0%}" for each in found if each.is_wrong]
    said = sum(each.probability is not None for each in found)
    yield f"wrong and certain: {len(wrong)} of {said} {', '.join(wrong)}"
    exported = sum(each.is_exported_wrong for each in found)
    yield f"for the highest load seen, grown by up to {max(GROWTHS) - 1:.0%}: {exported} of {said}"


def share(which: Array) -> str:
    """A share in per cent, and of how many."""
    return f"{np.mean(which):.0%} of {len(which)}" if len(which) else "–"


if __name__ == "__main__":
    print("\n".join(recorded_certainty()))
