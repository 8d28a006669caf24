"""The README's first command on a bare Debian, where nothing is but what its installer puts there.

Nothing here plays a part: apt, pip, the server and the network are the real ones, in a root that
debootstrap made, with package lists and without. These are for `--long`. Every run has a bookworm
without lists for some seconds in `test_bare_failures.py`, whose tests go on from there, and a
trixie with lists in `test_bare_debian.py`, interrupted in each step and then up to a fit.
"""

import pytest

from testbed.real.demo_in_bare_root import run_demo_in_bare_root, run_to_first_fit

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("release", ["trixie", "bookworm"])
def test_the_readmes_first_command_runs_on_a_bare_debian(release: str, lists: bool) -> None:
    """It installs what it needs, has a fit, ends with a table, and leaves nothing behind."""
    with run_demo_in_bare_root(release, lists=lists, run=run_to_first_fit) as root:
        assert "mariadbd" in root.do("ls", "/usr/sbin")
