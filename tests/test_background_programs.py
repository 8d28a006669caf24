"""Programs that tests run in the background end with the process of the test."""

import subprocess
import sys

import psutil

RUN_AND_WAIT = """
import time
from testbed.real.daemon import running
with running("sleep", "600") as pid:
    print(pid, flush=True)
    time.sleep(600)
"""


def test_killing_the_test_ends_its_programs() -> None:
    """A SIGKILL leaves no time to end them."""
    words = [sys.executable, "-c", RUN_AND_WAIT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        program = psutil.Process(int(test.stdout.readline()))
        test.kill()
    program.wait(10)
