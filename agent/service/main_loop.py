"""The main thread's loop: handles signals, watches the workers, reports to the service manager."""

import logging
import queue
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import Protocol

from agent.assessment.snapshot import Snapshot
from agent.service.status_line import status_line
from agent.service.systemd_notify import Notifier
from agent.support.logs import fields

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # seconds
ENDINGS = (signal.SIGTERM, signal.SIGINT)
RELOAD_SECONDS = 30.0  # seconds that a request for a reload waits for it
Problems = list[str]
Order = signal.Signals | Future[Problems]


class Loop(Protocol):
    """What should come round again and again: a worker, or the web server's accepting thread."""

    name: str

    def hangs(self, now: float) -> bool:
        """Whether it should have come round long ago."""


class MainLoop:
    """`run` returns when somebody wants the end.

    It tells the service manager that all is ready when every target was tried, and that we are
    alive as long as every worker comes round in time: a target that is down does not matter, a
    worker that hangs does.
    """

    def __init__(
        self,
        workers: Callable[[], Iterable[Loop]],
        snapshots: Callable[[], Sequence[Snapshot]],
        reload: Callable[[], Problems],
        notifier: Notifier,
    ) -> None:
        self._workers = workers
        self._snapshots = snapshots
        self._reload = reload
        self._notifier = notifier
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._ready = False
        self._refused = False
        self._hanging: set[str] = set()
        self._others: list[Loop] = []
        self._ping_at = 0.0

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT end, SIGHUP loads the configuration again."""
        for number in (*ENDINGS, signal.SIGHUP):
            signal.signal(number, self.take_signal)

    def look_after(self, loop: Loop) -> None:
        """Look after this one too, as after a worker."""
        self._others.append(loop)

    def request_reload(self) -> Problems:
        """Let the main thread reload, and wait; returns why it was refused, or nothing."""
        order: Future[Problems] = Future()
        self._orders.put(order)
        try:
            return order.result(RELOAD_SECONDS)
        except TimeoutError:
            return [f"not done within {RELOAD_SECONDS:g} s"]

    def run(self) -> None:
        """Serve until the end is asked for."""
        while (order := self._next_order()) not in ENDINGS:
            if order is not None:
                self._carry_out(order)
            self._look()
        log.info("stopping", extra=fields(signal=order.name))
        self._notifier.stopping()

    def _next_order(self) -> Order | None:
        try:
            return self._orders.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return None

    def take_signal(self, number: int, frame: FrameType | None) -> None:
        """Take a signal as an order; returns at once."""
        del frame
        self._orders.put(signal.Signals(number))

    def _carry_out(self, order: Order) -> None:
        """Reload, which is all that can be asked for but the end."""
        if self._ready:
            self._notifier.reloading()
        problems = self._reload()
        self._refused = bool(problems)
        if self._ready:
            self._notifier.ready()
        if isinstance(order, Future):
            order.set_result(problems)

    def _look(self) -> None:
        snapshots = self._snapshots()
        if not self._ready and all(snapshot.health.up is not None for snapshot in snapshots):
            self._ready = True
            self._notifier.ready()
        self._notifier.status(self._status(snapshots))
        self._look_after_workers(time.monotonic())

    def _status(self, snapshots: Sequence[Snapshot]) -> str:
        text = status_line(snapshots, time.time())
        if self._hanging:
            text = f"hangs: {', '.join(sorted(self._hanging))}; {text}"
        return (
            f"{text}; the changed configuration was refused, see the log" if self._refused else text
        )

    def _look_after_workers(self, now: float) -> None:
        hanging = {loop.name for loop in (*self._workers(), *self._others) if loop.hangs(now)}
        for name in hanging - self._hanging:
            log.error("a worker hangs", extra=fields(worker=name))
        self._hanging = hanging
        every = self._notifier.watchdog
        if every is not None and not hanging and now >= self._ping_at:
            self._notifier.alive()
            self._ping_at = now + every / 2 - POLL_SECONDS
