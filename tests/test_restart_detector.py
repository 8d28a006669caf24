"""A restart is told from all that looks like one."""

from dataclasses import replace

import pytest

from agent.sampling.restart_detector import RestartDetector, Session
from collectors.base import Sample

FIRST, SAME, NEXT, ANEW = Session(1, 70), Session(1, 70), Session(2, 71), Session(2, 8)


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
def test_a_restart_is_told_by_when_the_server_was_born(
    after: Sample, session: Session, another: bool
) -> None:
    """One of 50 s that had answered 1000 questions was seen at 100 s."""
    lives = RestartDetector()
    assert not lives.was_restarted(status(100, 50, 1000), FIRST)
    assert lives.was_restarted(after, session) is another


@pytest.mark.parametrize("off", [8.0, -8.0])
@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize(("took", "another"), [(9.0, False), (1.0, True)])
def test_an_answer_that_was_long_under_way_is_no_restart(
    late: int, took: float, another: bool, off: float
) -> None:
    """One of three answers is eight seconds older, or newer, than its date, the others are new."""
    detector = RestartDetector()
    answers = [status(100 + 10 * turn, 50 + 10 * turn, 1000) for turn in range(4)]
    answers[late] = replace(answers[late], at=answers[late].at + off, took=took)
    assert any(detector.was_restarted(answer, SAME) for answer in answers) is another


@pytest.mark.parametrize(("session", "another"), [(ANEW, True), (NEXT, False)])
def test_a_life_as_short_as_the_one_before_it_is_told_by_its_sessions(
    session: Session, another: bool
) -> None:
    """The same uptime, as many questions; only the session is numbered from the beginning."""
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
def test_a_life_in_which_others_were_first_is_told_by_the_engine(
    session: Session, writes: float, another: bool
) -> None:
    """The same uptime, more questions and sessions than before."""
    lives = RestartDetector()
    first, then = status(100, 1, 40), status(102.5, 1, 60)
    lives.was_restarted(replace(first, values={**first.values, "innodb_writes": 285.0}), FIRST)
    then = replace(then, values={**then.values, "innodb_writes": writes})
    assert lives.was_restarted(then, session) is another
