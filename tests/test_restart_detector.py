"""A restart is told from all that looks like one."""

import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ServerFactory

from agent.assessment.snapshot import Health
from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.sampling.restart_detector import RestartDetector, SessionIds
from agent.service.target_session import TargetSession, scheduled_collectors
from collectors import COLLECTORS
from collectors.base import Sample
from testbed.real.clients import run_as_root
from testbed.real.daemon import target, wait_until
from testbed.real.server_faults import restart_server

FIRST, SAME, NEXT, ANEW = SessionIds(1, 70), SessionIds(1, 70), SessionIds(2, 71), SessionIds(2, 8)


def status(at: float, uptime: float, questions: float) -> Sample:
    """What the server said of itself at that time."""
    return Sample("status", at, {"uptime": uptime, "questions": questions})


@pytest.mark.parametrize(
    ("after", "session", "another"),
    [
        pytest.param(status(101, 51, 1010), SAME, False, id="it goes on"),
        pytest.param(status(101, 51, 1010), NEXT, False, id="the session was lost"),
        pytest.param(status(101, 0, 10), ANEW, True, id="uptime and counters fell"),
        pytest.param(status(160, 5, 5000), NEXT, True, id="it has answered more than before"),
        pytest.param(status(101, 49, 1010), SAME, False, id="its clock was set back a little"),
        pytest.param(status(101, 51, 0), SAME, False, id="somebody flushed the status"),
        pytest.param(status(101, 51, 1010), ANEW, False, id="a proxy numbers its sessions again"),
    ],
)
def test_a_restart_is_detected_by_the_servers_start_time(
    after: Sample, session: SessionIds, another: bool
) -> None:
    """A server of 50 s that had answered 1000 questions was seen at 100 s."""
    lives = RestartDetector()
    assert not lives.was_restarted(status(100, 50, 1000), FIRST)
    assert lives.was_restarted(after, session) is another


@pytest.mark.parametrize("times", [(2e9, None), (None, 2e9)])
def test_a_server_that_tells_its_time_only_once_has_not_restarted(
    times: tuple[float | None, float | None],
) -> None:
    """Its clock and the agent's are not compared with each other."""
    detector = RestartDetector()
    assert not detector.was_restarted(status(100, 50, 1000), SAME, times[0])
    assert not detector.was_restarted(status(101, 51, 1010), SAME, times[1])


@pytest.mark.parametrize("off", [8.0, -8.0])
@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize(("took", "another"), [(9.0, False), (1.0, True)])
def test_a_delayed_answer_is_no_restart(late: int, took: float, another: bool, off: float) -> None:
    """One of three answers is eight seconds older, or newer, than its date."""
    detector = RestartDetector()
    answers = [status(100 + 10 * turn, 50 + 10 * turn, 1000) for turn in range(4)]
    answers[late] = replace(answers[late], at=answers[late].at + off, took=took)
    assert any(detector.was_restarted(answer, SAME) for answer in answers) is another


@pytest.mark.parametrize(("session", "another"), [(ANEW, True), (NEXT, False)])
def test_a_restart_with_the_same_uptime_is_detected_by_connection_ids(
    session: SessionIds, another: bool
) -> None:
    """Uptime and questions are the same as before; only the connection IDs began again."""
    lives = RestartDetector()
    lives.was_restarted(status(100, 1, 40), FIRST)
    assert lives.was_restarted(status(102.5, 1, 40), session) is another


@pytest.mark.parametrize(
    ("session", "writes", "another"),
    [
        pytest.param(NEXT, 234, True, id="others were first, the engine has done less"),
        pytest.param(NEXT, 293, False, id="the session was lost"),
        pytest.param(SAME, 234, False, id="a session does not outlive its server"),
    ],
)
def test_a_restart_is_detected_by_innodb_counters_where_ids_are_higher(
    session: SessionIds, writes: float, another: bool
) -> None:
    """Uptime is the same, questions and connection IDs are higher than before."""
    lives = RestartDetector()
    first, then = status(100, 1, 40), status(102.5, 1, 60)
    lives.was_restarted(replace(first, values={**first.values, "innodb_writes": 285.0}), FIRST)
    then = replace(then, values={**then.values, "innodb_writes": writes})
    assert lives.was_restarted(then, session) is another


class Look(logging.Handler):
    """Looks at a session's server whenever it logs something."""

    def __init__(self, session: TargetSession) -> None:
        super().__init__()
        self.seen: dict[str, Health] = {}
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        """Note what is known of the server when that is said."""
        self.seen[record.getMessage()] = self._session.server_health


def session_with(server: PrivateServer, folder: Path) -> TargetSession:
    """A session with this server, not yet open, that reads all collectors."""
    config = Config.validated({"targets": [target(folder, server)]})
    [there] = config.targets
    return TargetSession(there, scheduled_collectors(config, there, COLLECTORS), lambda _: None)


def test_a_restart_and_the_new_counters_are_published_together(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Else a scrape in between shows a counter that falls without a restart."""
    server = private_server("mariadb")
    session = session_with(server, tmp_path)
    look = Look(session)
    logging.getLogger("agent").addHandler(look)

    def restarts_and_queries() -> tuple[int, float]:
        session.read_server(time.monotonic())
        return session.server_health.restarts, session.server_health.queries or 0.0

    try:
        run_as_root(server, *["DO 0"] * 1000)
        wait_until("a reading", lambda: restarts_and_queries()[1] > 1000)
        restart_server(server)
        wait_until("the restart", lambda: restarts_and_queries()[0])
    finally:
        logging.getLogger("agent").removeHandler(look)
        session.close()
    told = look.seen["the server has restarted"]
    assert told.restarts == 1
    assert told.up
    assert told.queries is not None
    assert told.queries < 1000


def test_a_restart_during_a_reload_is_counted(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """As where a new my.cnf and a new configuration of the agent are rolled out together."""
    server = private_server("mariadb")
    before, after = (session_with(server, tmp_path) for _ in range(2))

    def is_read(session: TargetSession) -> bool:
        session.read_server(time.monotonic())
        return session.server_health.up is True

    try:
        wait_until("a reading", lambda: is_read(before))
        before.close()
        restart_server(server)
        after.take_over(before)
        connects = after.connects
        wait_until(
            "a reading of the successor", lambda: is_read(after) and after.connects > connects
        )
        assert after.server_health.restarts == 1
    finally:
        before.close()
        after.close()
