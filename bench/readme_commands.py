"""README's two commands in a bare Debian, one after the other: the demo, and all of the tests.

    python bench/readme_commands.py [bookworm|trixie [arguments of pytest]]

As root, with what scripts/test keeps in .cache. Every run of the tests has a bare root with a part
of this (tests/test_bare_failures.py); the whole takes as long as the tests do, so it is run before
a release. What the tests print is passed on; ends as they do.
"""

import subprocess
import sys

from testbed.real.bare_root import BareRoot
from testbed.real.demo_in_bare_root import DEMO, PATIENCE, assert_a_whole_run

ROOM = "10g"
MAX_SECONDS = 5400.0  # seconds


def main(release: str) -> int:
    """Run both; the second one's exit code."""
    with BareRoot(release, room=ROOM) as root:
        root.check_out()
        first = root.run(*DEMO, timeout=PATIENCE)
        assert_a_whole_run(first)
        print(first.stdout.split("\n\n")[-1], flush=True)
        root.share_cache()
        root.share_data()
        root.add_disk()
        command = root.command("scripts/test", *sys.argv[2:], variables={"CI": "true"})
        return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=MAX_SECONDS).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["bookworm"]))
