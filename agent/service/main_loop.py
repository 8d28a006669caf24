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
from agent.support.scheduled_thread import SUSPENDED_SECONDS

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD_SECONDS = 30.0  # seconds that a request for a reload waits for it
Problems = list[str]
Request = signal.Signals | Future[Problems]


class WatchedLoop(Protocol):
    """A loop that is watched for hanging: a worker, or the web server's accepting thread."""

    name: str

    def is_hanging(self, now: float) -> bool:
        """Return whether its next iteration is long overdue."""


class MainLoop:
    """The main thread's loop; `run` returns on SIGTERM or SIGINT.

    It notifies the service manager that the agent is ready once every target was tried, and that
    it is alive as long as no worker hangs, whether targets are up or down.
    """

    def __init__(
        self,
        workers: Callable[[], Iterable[WatchedLoop]],
        snapshots: Callable[[], Sequence[Snapshot]],
        reload: Callable[[], Problems],
        notifier: Notifier,
    ) -> None:
        self._workers = workers
        self._snapshots = snapshots
        self._reload = reload
        self._notifier = notifier
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._is_ready = False
        self._is_reload_refused = False
        self._hanging: set[str] = set()
        self._other_loops: list[WatchedLoop] = []
        self._next_ping_at = 0.0
        self._checked_at = time.monotonic()

    def listen_to_signals(self) -> None:
        """Install the signal handlers: SIGTERM and SIGINT end the loop, SIGHUP reloads."""
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            signal.signal(number, self.take_signal)

    def watch_loop(self, loop: WatchedLoop) -> None:
        """Watch this loop, too, for hanging."""
        self._other_loops.append(loop)

    def request_reload(self) -> Problems:
        """Have the main thread reload, and wait; return why it was refused, or an empty list."""
        request: Future[Problems] = Future()
        self._requests.put(request)
        try:
            return request.result(RELOAD_SECONDS)
        except TimeoutError:
            return [f"the reload did not finish within {RELOAD_SECONDS:g} s"]

    def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        while (request := self._next_request()) not in STOP_SIGNALS:
            if request is not None:
                self._execute_reload(request)
            self._report_status()
        log.info("stopping", extra=fields(signal=request.name))
        self._notifier.stopping()

    def _next_request(self) -> Request | None:
        try:
            return self._requests.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return None

    def take_signal(self, number: int, frame: FrameType | None) -> None:
        """Queue a signal for the main thread; return at once."""
        del frame
        self._requests.put(signal.Signals(number))

    def _execute_reload(self, request: Request) -> None:
        """Reload the configuration: any request but SIGTERM and SIGINT asks for that."""
        if self._is_ready:
            self._notifier.reloading()
        problems = self._reload()
        self._is_reload_refused = bool(problems)
        if self._is_ready:
            self._notifier.ready()
        if isinstance(request, Future):
            request.set_result(problems)

    def _report_status(self) -> None:
        """Notify readiness once every target was tried, then the status, and check the workers."""
        snapshots = self._snapshots()
        if not self._is_ready and all(snapshot.health.up is not None for snapshot in snapshots):
            self._is_ready = True
            self._notifier.ready()
        self._notifier.status(self._status(snapshots))
        self._check_workers(time.monotonic())

    def _status(self, snapshots: Sequence[Snapshot]) -> str:
        text = status_line(snapshots, time.time())
        if self._hanging:
            text = f"hangs: {', '.join(sorted(self._hanging))}; {text}"
        return (
            f"{text}; the changed configuration was refused, see the log"
            if self._is_reload_refused
            else text
        )

    def _check_workers(self, now: float) -> None:
        """Log each worker that hangs; ping the watchdog if none does.

        After a suspension (of the process, its container or its machine) all are late: they are
        checked once they could run.
        """
        checked_at, self._checked_at = self._checked_at, now
        if now - checked_at > SUSPENDED_SECONDS:
            return
        hanging = {
            loop.name for loop in (*self._workers(), *self._other_loops) if loop.is_hanging(now)
        }
        for name in hanging - self._hanging:
            log.error("a worker hangs", extra=fields(worker=name))
        self._hanging = hanging
        watchdog = self._notifier.watchdog_seconds
        if watchdog is not None and not hanging and now >= self._next_ping_at:
            self._notifier.ping_watchdog()
            self._next_ping_at = now + watchdog / 2 - POLL_SECONDS
