"""The README's first command on a bare Debian, where nothing is but what its installer puts there.

Nothing here plays a part: apt, pip, the server and the network are the real ones, in a root that
debootstrap made, with package lists and without. Every run has a trixie with lists here, up to a
fit, and for some seconds a bookworm without in `test_bare_failures.py`, whose tests go on from
there; the others are for `--long`.
"""

import pytest

from testbed.real.demo_in_bare_root import run_demo_in_bare_root, run_to_first_fit

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("release", "lists"),
    [
        ("trixie", True),
        pytest.param("trixie", False, marks=pytest.mark.long),
        pytest.param("bookworm", True, marks=pytest.mark.long),
        pytest.param("bookworm", False, marks=pytest.mark.long),
    ],
)
def test_the_readmes_first_command_runs_on_a_bare_debian(release: str, lists: bool) -> None:
    """It installs what it needs, has a fit, ends with a table, and leaves nothing behind."""
    for root in run_demo_in_bare_root(release, lists=lists, run=run_to_first_fit):
        assert "mariadbd" in root.do("ls", "/usr/sbin")
