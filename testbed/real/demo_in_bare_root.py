"""The demo script (README's first command) in a bare root, and checks of how it ended."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from testbed.real.bare_root import BareRoot

DEMO = ("scripts/demo", "--seconds", "120")
"""Where other programs fill the processors, a minute has too few intervals for a fit."""
BRIEF = ("scripts/demo", "--seconds", "5")
FITTED = "USL peak"  # what a line has once there is a fit
PATIENCE = 600.0  # seconds for a whole installation on a busy machine
PROGRESS = (  # what a script says of its work; what it says besides is a message
    "demo: installing ",
    "demo: making ",
    "demo: reading ",
    "demo: ending ",
)


def message(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the one line with which a failed command ended, without its own name."""
    assert done.returncode == 1, done
    lines = [line for line in done.stderr.splitlines() if not line.startswith(PROGRESS)]
    (line,) = lines
    return re.sub(r"^(demo|test|mysql-headroom demo): ", "", line)


def assert_whole(root: BareRoot) -> None:
    """Check that nothing runs in it, and that no package is half installed."""
    deadline = time.monotonic() + 5
    while (alive := root.processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive
    assert root.do("dpkg", "--audit") == ""


def assert_ended_well(done: "subprocess.CompletedProcess[str]") -> None:
    """Check that the demo ended with 0, without complaints, and printed its final table."""
    assert done.returncode == 0, done
    assert re.search(r"^timing ", done.stdout.split("\n\n")[-1], re.MULTILINE), done.stdout
    assert not [line for line in done.stderr.splitlines() if not line.startswith(PROGRESS)]


def assert_a_whole_run(done: "subprocess.CompletedProcess[str]") -> None:
    """Check that it ended well, reported when there was a fit, and printed the results."""
    assert_ended_well(done)
    assert re.search(r"^starting a private MariaDB \d+\.\d+\.\d+ …$", done.stdout, re.MULTILINE)
    assert re.search(r"^ *\d+ s  .* \| load (rising|falling), ", done.stdout, re.MULTILINE)
    table = done.stdout.split("\n\n")[-1]
    for row in (r"throughput", r"concurrency", r"capacity", r"timing +first fit after \d+ s"):
        assert re.search(rf"^{row}", table, re.MULTILINE), done.stdout


def run_briefly(root: BareRoot) -> None:
    """Run the first command for a few seconds of load, too few for a fit."""
    assert_ended_well(root.run(*BRIEF, timeout=PATIENCE))


def run_to_first_fit(root: BareRoot) -> None:
    """Run the first command until it shows a fit, and interrupt it."""
    words, lines = root.command(*DEMO), []
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        patience = Timer(PATIENCE, process.kill)
        patience.start()
        for line in process.stdout:
            lines.append(line)
            if FITTED in line:
                _interrupt(root)
        code = process.wait()
        patience.cancel()
        errors.seek(0)
        said = "".join(lines), errors.read()
    assert_a_whole_run(subprocess.CompletedProcess(words, code, *said))


def _interrupt(root: BareRoot) -> None:
    """Send Ctrl-C to the demo, unless it has just ended by itself."""
    for words in root.processes():
        if "mysql-headroom demo" in words:
            os.kill(int(words.split()[0]), signal.SIGINT)


@contextmanager
def run_demo_in_bare_root(
    release: str, *, lists: bool, run: Callable[[BareRoot], None]
) -> Iterator[BareRoot]:
    """Run the first command in a bare root, check that only packages are left, and yield it."""
    with BareRoot(release) as root:
        root.check_out()
        if not lists:
            root.do("sh", "-c", "rm -r /var/lib/apt/lists/*")
        before = root.state()
        run(root)
        assert root.state() == before
        assert_whole(root)
        yield root
