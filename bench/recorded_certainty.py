"""The probability of saturation of recorded servers, compared with what clients could get."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agent.pipeline import observations
from agent.window.concurrency import Source
from models.capacity.assess import assess_capacity
from models.capacity.saturation_probability import is_contradicted
from testbed.recorded.peak_predictions import clients_peak, saved, seen_below

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "real"
AT = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25)
"""Of what the clients could get."""
FAR_BELOW, FAR_ABOVE = 0.8, 1.25
CERTAIN = 0.95


def recorded_certainty() -> Iterator[str]:
    """A line for each recording and highest load: P(C ≤ x) at shares of the clients' peak."""
    yield "| recorded | seen up to | " + " | ".join(f"{at:.0%}" for at in AT) + " |"
    yield "|---" * (len(AT) + 2) + "|"
    wrong = said = 0
    for file in sorted(RECORDED.glob("*.json.gz")):
        seen = saved(file)
        for part in seen["caps"]:
            found = assess_capacity(observations(seen_below(seen, part), Source.STATEMENT_TIME))
            cells = ["–"] * len(AT)
            if found.distribution is not None and not is_contradicted(found):
                peak = clients_peak(seen, part)[0]
                reached = found.distribution.at_most(np.array(AT) * peak)
                cells = [f"{p:.2f}" for p in reached]
                far = dict(zip(AT, reached, strict=True))
                said += 1
                wrong += far[FAR_BELOW] >= CERTAIN or far[FAR_ABOVE] <= 1 - CERTAIN
            name = file.name.removesuffix(".json.gz")
            yield f"| {name} | {part['cap']:.0%} | " + " | ".join(cells) + " |"
    yield f"wrong and certain: {wrong} of {said}"
