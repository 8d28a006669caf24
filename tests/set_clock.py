"""Run a Python program with its wall clock ahead by as many seconds as a file says.

    python set_clock.py FILE PROGRAM ARGUMENT...

The clock of the kernel cannot be set for one process alone.
"""

import runpy
import sys
import time
from pathlib import Path


def set_ahead(file: Path, seconds: float) -> None:
    """Set the clock of the program that uses this file."""
    written = file.with_suffix(".new")
    written.write_text(str(seconds))
    written.rename(file)


def main() -> None:
    """Install the clock and become the program."""
    file, real = Path(sys.argv[1]), time.time
    time.time = lambda: real() + float(file.read_text())
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
