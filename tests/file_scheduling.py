"""Which process of a run gets which file of tests: live ones from the start, others meanwhile."""

from typing import Any

from xdist.scheduler import LoadFileScheduling

EVERY = 4


class TwoEndsScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole files; every fourth process begins with the last of them.

    Live tests come first and mostly wait, three quarters of the time; those without a server come
    last and compute. So they compute while others wait, with what processor time is left (see
    `priority`), and not when all have waited.
    """

    def _assign_work_unit(self, node: Any) -> None:
        if int(node.gateway.id.removeprefix("gw")) % EVERY == EVERY - 1:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
