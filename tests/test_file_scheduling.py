"""Files of tests over the processes of a run."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from file_scheduling import LONG_FILES, place

TESTS = Path(__file__).parent
CONFTEST = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from file_scheduling import TwoEndsScheduling

def pytest_xdist_make_scheduler(config, log):
    return TwoEndsScheduling(config, log)
"""
FILE = "import time\n\n\ndef test_a():\n    time.sleep(0.1)\n\n\n" + "\n\n".join(
    f"def test_{name}():\n    pass\n" for name in "bcd"
)


SLOW = "import time\n\n\ndef test_a():\n    time.sleep(2.0)\n"


def run(folder: Path, files: Mapping[str, str], processes: int) -> list[tuple[str, str]]:
    """Which process ran a test of which file, in the order in which they ended."""
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / name).write_text(text)
    words = ("-n", f"{processes}", "--dist", "loadfile", "--no-loadscope-reorder", "-v")
    plugins = ("-p", "xdist.plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *words, *plugins]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # starts in half of the time
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=alone
    )
    ran = re.findall(r"\[gw(\d)\].*PASSED (test_\d+\.py)::", done.stdout)
    assert len(ran) == sum(text.count("def ") for text in files.values()), done.stdout + done.stderr
    return ran


def test_every_fourth_process_begins_with_the_last_files(tmp_path: Path) -> None:
    """Each file runs in one process; the first three have the first files, the fourth the last."""
    names = [f"test_{number:02}.py" for number in range(12)]
    ran = run(tmp_path, dict.fromkeys(names, FILE), 4)
    of_process = {number: [name for n, name in ran if n == number] for number in "0123"}
    assert all(len({n for n, of in ran if of == name}) == 1 for name in names)
    assert {of_process[number][0] for number in "012"} == set(names[:3])
    assert of_process["3"][0] == names[-1]


def test_at_most_one_file_waits_for_a_busy_process(tmp_path: Path) -> None:
    """The other process runs all the rest meanwhile."""
    names = [f"test_{number:02}.py" for number in range(10)]
    one_test = FILE.partition("\n\ndef test_b")[0]
    texts = [FILE, FILE, SLOW, *[one_test] * 7]
    ended = [name for _, name in run(tmp_path, dict(zip(names, texts, strict=True)), 2)]
    assert len(ended) - 1 - ended.index(names[2]) <= 1


def test_the_longest_files_come_first_in_their_order() -> None:
    """All of them exist, and are before every other."""
    assert all((TESTS / name).exists() for name in LONG_FILES)
    assert sorted(["test_a.py", *LONG_FILES], key=place) == [*LONG_FILES, "test_a.py"]
