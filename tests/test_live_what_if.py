"""What-if answers, checked for real: more of a processor is predicted, and then given."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cgroups import cpu_quota
from conftest import ServerFactory
from live import Clients, is_root, wait_until
from walls import FEW_CLIENTS, SHARES, most, watched

STATEMENT = "DO BENCHMARK(300000, 1 + 1)"
HALF, WHOLE = 0.5, 1.0
STEP = 3.0  # seconds at each share of the peak
NEAR = 0.35
"""How far off the prediction may be on a machine whose processors others use too; that of half a
processor is twice as low."""
WANDERS = 0.25
DEADLINE = 30.0


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root limits what a process may use")
def test_a_whole_processor_gives_what_half_of_one_predicts(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Capacity under a quota of one, asked while the quota is a half and the load below half."""
    server = private_server("mysql")

    def load(count: int, pace: float) -> Clients:
        return Clients(server, STATEMENT, count, pace=pace)

    with cpu_quota(server.pid, HALF):
        before = most(load)
        with watched(tmp_path, server) as agent:
            for share in SHARES:
                with load(FEW_CLIENTS, 1 / (share * before)):
                    time.sleep(STEP)
            answer = wait_until("prediction", lambda: asked(agent.port), DEADLINE)
    with cpu_quota(server.pid, WHOLE):
        truth = most(load)
    assert answer is not None
    found = answer["then"]["capacity"]
    print(f"half a processor {before:.0f}/s; one: {found} predicted, {truth:.0f}/s is the truth")
    assert answer["changes"][0]["factor"] == pytest.approx(WHOLE / HALF, rel=0.01)
    assert answer["then"]["gain"]["lower"] > 0
    assert found["value"] == pytest.approx(truth, rel=NEAR)
    assert (1 - WANDERS) * found["lower"] < truth < (1 + WANDERS) * (found["upper"] or truth)


def asked(port: int) -> dict[str, Any] | None:
    """The answer for one processor; None until the capacity is known."""
    url = f"http://127.0.0.1:{port}/api/v1/what-if?target=db&cores={WHOLE:g}"
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        found: dict[str, Any] = json.load(answer)
    return found if found["then"]["capacity"] else None
