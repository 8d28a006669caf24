"""Workers: who is served when, and that a defect stays its own."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.support.scheduled_thread import SHARED_SECONDS, Tick, Worker

DEADLINE = 5.0
ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    """A tick that remembers when it was taken, and wants to be taken again after a while."""

    def __init__(self, interval: float, fails: bool = False) -> None:
        self.times: list[float] = []
        self.begun, self.enough = threading.Event(), threading.Event()
        self._interval = interval
        self._fails = fails

    def tick(self, now: float) -> float:
        """Note the time."""
        self.times.append(now)
        self.begun.set()
        if len(self.times) >= 3:
            self.enough.set()
        if self._fails:
            raise RuntimeError("a defect")
        return now + self._interval


@pytest.fixture
def started() -> Iterator[list[Worker]]:
    """Workers that are stopped and waited for when the test ends."""
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        worker.stop()
        worker.join(DEADLINE)
        assert not worker.is_alive()


def start(started: list[Worker], *ticks: Tick) -> None:
    """A worker with those ticks."""
    worker = Worker("test", ticks)
    started.append(worker)
    worker.start()


def test_each_tick_runs_when_it_is_due(started: list[Worker]) -> None:
    """The ticks of one worker each keep their own interval."""
    slow, fast = Recorder(0.2), Recorder(0.05)
    start(started, slow.tick, fast.tick)
    assert slow.enough.wait(DEADLINE)
    assert len(fast.times) > len(slow.times)
    for recorder, interval in ((slow, 0.2), (fast, 0.05)):
        steps = [b - a for a, b in zip(recorder.times, recorder.times[1:], strict=False)]
        assert min(steps) >= interval


def test_ticks_due_at_about_the_same_time_run_together(
    started: list[Worker],
) -> None:
    """Each wake-up of a thread costs CPU."""
    first, second = Recorder(0.3), Recorder(0.3)

    def due_later(now: float) -> float:
        is_first = not second.times
        return second.tick(now) + is_first * SHARED_SECONDS / 2

    start(started, first.tick, due_later)
    assert second.enough.wait(DEADLINE)
    apart = [b - a for a, b in zip(first.times[1:], second.times[1:], strict=False)]
    assert min(apart) < SHARED_SECONDS / 4


def test_an_exception_in_a_tick_is_logged_and_stops_no_other(
    started: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    """The other ticks run on, and so does the worker."""
    bad, good = Recorder(0.01, fails=True), Recorder(0.02)
    with caplog.at_level(logging.ERROR):
        start(started, bad.tick, good.tick)
        assert good.enough.wait(DEADLINE)
    assert "a scheduled run failed: RuntimeError: a defect (test_worker.py:" in caplog.text
    assert "Traceback" not in caplog.text
    assert started[0].failures == len(bad.times)


def test_a_waiting_worker_stops_at_once(started: list[Worker]) -> None:
    """Stopping does not wait for the next tick."""
    recorder = Recorder(1000.0)
    start(started, recorder.tick)
    assert recorder.begun.wait(DEADLINE)
    started[0].stop()
    started[0].join(1.0)
    assert not started[0].is_alive()


def test_a_blocked_worker_delays_no_other(started: list[Worker]) -> None:
    """One that hangs in a read delays no other."""
    hold = threading.Event()
    other = Recorder(0.01)
    start(started, lambda now: now + (1000.0 if hold.wait(DEADLINE) else 0.0))
    start(started, other.tick)
    assert other.enough.wait(DEADLINE)
    hold.set()


def test_ticks_can_be_replaced_while_the_worker_runs(started: list[Worker]) -> None:
    """Kept ticks keep their due time, new ones run at once, removed ones no more."""
    gone, stays, new = Recorder(0.02), Recorder(1000.0), Recorder(0.02)
    start(started, gone.tick, stays.tick)
    assert gone.enough.wait(DEADLINE)
    started[0].replace_ticks([stays.tick, new.tick])
    assert new.enough.wait(DEADLINE)
    taken = len(gone.times)
    time.sleep(0.1)
    assert (len(gone.times), len(stays.times)) == (taken, 1)


def test_the_worker_itself_runs_the_clean_up_at_its_end() -> None:
    """What the worker has open is closed by its own thread, after the last tick."""
    who: list[str] = []
    worker = Worker("one", [], at_end=lambda: who.append(threading.current_thread().name))
    worker.start()
    worker.stop()
    worker.join(DEADLINE)
    assert who == ["one"]


def test_lag_is_counted_in_a_long_tick_and_not_while_waiting(
    started: list[Worker],
) -> None:
    """Lag is the time since the worker was due; beyond the allowance it hangs."""
    hold = threading.Event()
    workers = [
        Worker("waits", [lambda now: now + 1000.0], allowance=0.2),
        Worker("hangs", [lambda now: now + float(hold.wait(DEADLINE))], allowance=0.2),
    ]
    started += workers
    for worker in workers:
        worker.start()
    time.sleep(0.3)
    now = time.monotonic()
    assert [worker.is_hanging(now) for worker in workers] == [False, True]
    assert workers[0].seconds_behind(now) == 0
    assert 0.2 < workers[1].seconds_behind(now) < DEADLINE
    hold.set()


def test_a_tick_that_makes_progress_does_not_hang(started: list[Worker]) -> None:
    """Many slow answers one after the other are no hang."""
    hold, answers = threading.Event(), [0]
    worker = Worker(
        "slow",
        [lambda now: now + float(hold.wait(DEADLINE))],
        allowance=0.2,
        progress=lambda: answers[0],
    )
    started.append(worker)
    worker.start()
    for _ in range(5):
        time.sleep(0.1)
        answers[0] += 1
        assert not worker.is_hanging(time.monotonic())
    time.sleep(0.3)
    assert worker.is_hanging(time.monotonic())
    hold.set()


def test_late_starts_of_ticks_are_added_up(started: list[Worker]) -> None:
    """A tick that delays the others shows in the worker's lateness."""
    quick = Recorder(0.02)

    def slow(now: float) -> float:
        time.sleep(0.1)
        return now

    start(started, quick.tick, slow)
    assert quick.enough.wait(DEADLINE)
    assert started[0].late_seconds > 0.1


SUSPENDED = """
import signal, sys, threading
from agent.support import scheduled_thread
scheduled_thread.SUSPENDED_SECONDS = float(sys.argv[1])
requests = []
def stop(now):
    if requests:
        signal.pthread_kill(threading.get_ident(), requests.pop())
    return now + 0.25
worker = scheduled_thread.Worker("test", [lambda now: now + 0.25, stop, lambda now: now + 0.25])
worker.start()
for line in sys.stdin:
    print(worker.late_seconds, flush=True)
    if line.strip():
        requests.append(signal.SIGSTOP)
"""


def added_by_a_suspension(threshold: float, *, during_a_run: bool) -> float:
    """How late its worker became, where so long counts as one; all in seconds."""
    words = [sys.executable, "-c", SUSPENDED, str(threshold)]
    pipe, environment = subprocess.PIPE, os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment) as process:

        def late(request: str = "") -> float:
            assert process.stdin
            assert process.stdout
            print(request, file=process.stdin, flush=True)
            return float(process.stdout.readline())

        try:
            late()
            time.sleep(0.5)
            before = late("stop" if during_a_run else "")
            if not during_a_run:
                process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            time.sleep(2.0)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.5)
            return late() - before
        finally:
            process.kill()


@pytest.mark.parametrize("during_a_run", [False, True], ids=["waiting", "running"])
def test_a_suspended_process_has_no_late_worker(during_a_run: bool) -> None:
    """Its runs begin late, but nothing delays them: the machine is not too busy for it."""
    assert added_by_a_suspension(threshold=0.75, during_a_run=during_a_run) < 1.0
    assert added_by_a_suspension(threshold=100.0, during_a_run=during_a_run) > 1.0


def test_a_woken_worker_runs_its_ticks_at_once(started: list[Worker]) -> None:
    """A call of `wake` during a tick is not lost."""
    rare, begun, hold = Recorder(3600.0), threading.Event(), threading.Event()

    def slow(now: float) -> float:
        begun.set()
        hold.wait(DEADLINE)
        return rare.tick(now)

    start(started, slow)
    assert begun.wait(DEADLINE)
    started[0].wake()
    hold.set()
    end = time.monotonic() + DEADLINE
    while len(rare.times) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    started[0].wake()
    assert rare.enough.wait(DEADLINE)
    assert started[0].late_seconds < 1.0
