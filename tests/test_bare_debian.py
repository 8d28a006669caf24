"""The README's first command on a bare Debian, interrupted in each of its steps.

Nothing here plays a part: apt, pip, the server and the network are the real ones, in a root that
debootstrap made; each test writes in a layer of its own that goes away with it. Left alone it is in
`test_bare_failures.py`, with how it fails, and with `--long` in `test_bare_demo.py`.
"""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from testbed.real.bare_root import CHECKOUT, BareRoot
from testbed.real.demo_in_bare_root import BRIEF, PATIENCE, assert_whole, run_to_first_fit

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(900)]


class Terminal:
    """A command inside that runs on a terminal of its own, whose Ctrl-C we can press."""

    def __init__(self, root: BareRoot, *words: str) -> None:
        self._root = root
        self._ours, theirs = pty.openpty()
        # a run in the background ignores Ctrl-C, and so would all that it starts
        heeds = ("env", "--default-signal=INT,QUIT")
        command = root.command(*heeds, "setsid", "--ctty", "--wait", *words)
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def wait_for(self, enough: Callable[[], bool]) -> None:
        """Read what it prints until that is enough."""
        deadline = time.monotonic() + PATIENCE
        while not enough():
            assert time.monotonic() < deadline, self.text
            assert self._read(0.1), self.text

    def press_ctrl_c(self) -> None:
        """Have the terminal interrupt what runs in its foreground."""
        os.write(self._ours, b"\x03")

    def terminate(self) -> None:
        """Send SIGTERM to the script alone."""
        scripts = [words for words in self._root.processes() if "/bin/sh scripts/" in words]
        os.kill(min(int(words.split()[0]) for words in scripts), signal.SIGTERM)  # not a subshell

    def end(self) -> int:
        """Read to its end; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(0.1):
            assert time.monotonic() < deadline, self.text
        os.close(self._ours)
        return self._process.wait()

    def _read(self, seconds: float) -> bool:
        """Read what there is; false at the end."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        try:
            self.text += os.read(self._ours, 65536).decode(errors="replace").replace("\r", "")
        except OSError:
            return False
        return True


def test_an_interrupted_demo_leaves_nothing_half_installed() -> None:
    """Ctrl-C or SIGTERM in any step ends it soon; the next run is complete, and has a fit."""
    with BareRoot("trixie") as root:
        root.check_out()
        is_interrupted_and_then_whole(root)


def is_interrupted_and_then_whole(bare: BareRoot) -> None:
    """The first command is interrupted in each of its steps, and then runs to its end."""
    before = bare.state()

    def interrupted(moment: Callable[[Terminal], bool], act: Callable[[Terminal], None]) -> None:
        terminal = Terminal(bare, *BRIEF)
        terminal.wait_for(lambda: moment(terminal))
        act(terminal)
        code = terminal.end()
        assert code in (0, 130), terminal.text
        assert "error" not in terminal.text.lower()
        assert_whole(bare)
        assert bare.state() == before
        venv = bare.path(f"{CHECKOUT}/.venv")
        assert venv.exists() == ("installing mariadb" in terminal.text)

    def unpacks(_: Terminal) -> bool:
        return any(_name(words) == "dpkg" and "--unpack" in words for words in bare.processes())

    interrupted(lambda t: "installing python3.13" in t.text, Terminal.terminate)
    interrupted(unpacks, Terminal.press_ctrl_c)
    assert "Python 3.13" in bare.do("python3.13", "--version")
    interrupted(lambda t: "making .venv" in t.text, Terminal.press_ctrl_c)
    interrupted(lambda t: "into .venv" in t.text, Terminal.terminate)
    interrupted(lambda t: "installing mariadb" in t.text, Terminal.press_ctrl_c)
    run_to_first_fit(bare)
    assert bare.state() == before
    assert_whole(bare)


def _name(words: str) -> str:
    """The program of a process that is listed."""
    return words.split()[1].rsplit("/", 1)[-1]
