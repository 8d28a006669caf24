"""The README's commands on a bare Debian that lacks something: one line has what, and the remedy.

And on one where the first command ran: the second one installs what it needs, and tests pass.
"""

import re
import subprocess
from collections.abc import Iterator

import pytest

from testbed.real.bare_root import CHECKOUT, BareRoot
from testbed.real.demo_in_bare_root import (
    BRIEF,
    PATIENCE,
    assert_whole,
    message,
    run_briefly,
    run_demo_in_bare_root,
)

SOME_TESTS = (
    "tests/test_cli.py::test_an_invalid_file_ends_with_2_and_all_its_mistakes",
    "tests/test_live_check.py::test_with_everything_enabled_every_feature_is_ok",
)
UNREACHABLE = "is there a network, and does it need a proxy?"
AS_USER = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
IMPATIENT = {"PIP_RETRIES": "1"}
NO_RETRIES = 'Acquire::Retries "0";\n'  # apt's own pauses are half a minute of a command
GIVE_TO_USER = ("sh", "-c", f"chmod 755 /root && chown -R 1000 {CHECKOUT}")
LISTEN = """
import socket, sys
with socket.socket() as taken:
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 10104))
        taken.listen()
    except OSError:
        pass  # taken as it is
    print("ready", flush=True)
    sys.stdin.read()
"""
pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def used() -> Iterator[BareRoot]:
    """A bookworm without package lists in which the first command ran to its end."""
    with run_demo_in_bare_root("bookworm", lists=False, run=run_briefly) as root:
        yield root


@pytest.fixture
def copy(used: BareRoot) -> Iterator[BareRoot]:
    """Another bookworm in the state that the first command leaves."""
    with BareRoot("bookworm", below=used) as root:
        yield root


def test_the_first_command_works_without_package_lists(used: BareRoot) -> None:
    """On a bare bookworm it updates them, installs what it needs, and runs."""
    assert "mariadbd" in used.do("ls", "/usr/sbin")


def test_the_second_command_runs_the_tests(copy: BareRoot) -> None:
    """After the first one it installs all that the tests need, and they pass."""
    copy.share_cache()
    few = ("--numprocesses", "1")  # each compiles all that it imports
    done = copy.run("scripts/test", *few, *SOME_TESTS, timeout=PATIENCE, variables={"CI": "true"})
    assert done.returncode == 0, done
    assert "will not run" not in done.stderr
    assert re.search(r"^=* ?\d+ passed in [\d.]+s", done.stdout, re.MULTILINE), done.stdout


def test_a_mariadb_without_its_client_is_completed(copy: BareRoot) -> None:
    """The server's package alone cannot create its data; the others are installed."""
    copy.do("dpkg", "--remove", "--force-depends", "mariadb-client-core")
    done = copy.run(*BRIEF)
    assert done.returncode == 0, done
    assert re.search(
        r"could not create a data directory .*my_print_defaults.*; trying another …\n"
        r"installing mariadb-server-core mariadb-client-core from",
        done.stdout,
    ), done.stdout


def test_without_root_each_line_names_the_packages(bare: BareRoot, copy: BareRoot) -> None:
    """A user without root and sudo is told which packages root should install."""
    bare.do(*GIVE_TO_USER)
    copy.do(*GIVE_TO_USER)
    assert message(bare.run(*AS_USER, "scripts/demo")) == (
        "please install: python3.11 python3.11-venv "
        "(as root: apt-get install --no-install-recommends python3.11 python3.11-venv)"
    )
    bare.do("sh", "-c", "rm -r /var/lib/apt/lists/*")
    assert "as root, apt-get update && apt-get install python3 python3-venv" in message(
        bare.run(*AS_USER, "scripts/demo")
    )
    copy.do("dpkg", "--purge", "mariadb-server-core")
    assert message(copy.run(*AS_USER, "scripts/demo")) == (
        "no MySQL or MariaDB server on this machine; as root: apt-get install "
        "--no-install-recommends mariadb-server-core mariadb-client-core"
    )


def test_without_a_network_each_line_asks_for_one(bare: BareRoot, copy: BareRoot) -> None:
    """Without any interface, each failure is one line with the remedy."""
    for root in (bare, copy):
        root.path("/etc/apt/apt.conf.d/99impatient").write_text(NO_RETRIES)
    line = message(bare.run("scripts/demo", network=False))
    assert re.fullmatch(
        rf"cannot install python3\.11 python3\.11-venv: .*: {re.escape(UNREACHABLE)}", line
    )
    bare.do("sh", "-c", "rm -r /var/lib/apt/lists/*")
    line = message(bare.run("scripts/demo", network=False))
    assert re.fullmatch(rf"cannot read the package lists: .*: {re.escape(UNREACHABLE)}", line)
    copy.do("dpkg", "--purge", "mariadb-server-core")
    copy.do("apt-get", "clean")
    line = message(copy.run("scripts/demo", network=False))
    assert re.fullmatch(rf"cannot install mariadb-server-core .*: {re.escape(UNREACHABLE)}", line)
    copy.do("rm", "-r", ".venv")
    line = message(copy.run("scripts/demo", network=False, variables=IMPATIENT))
    assert re.fullmatch(
        rf"pip cannot install the libraries into \.venv: .*: {re.escape(UNREACHABLE)}", line
    )
    assert not copy.path(f"{CHECKOUT}/.venv").exists()


def test_a_full_disk_is_one_line(used: BareRoot, copy: BareRoot) -> None:
    """No space for packages, libraries or data: nothing is half installed."""
    for room, problem in (("20m", "read the package lists"), ("130m", "install python3.11 .*")):
        with BareRoot("bookworm", room=room) as small:
            small.check_out()
            line = message(small.run("scripts/demo"))
            assert re.fullmatch(f"cannot {problem}: .*: free some space and run this again", line)
            assert_whole(small)
    with BareRoot("bookworm", below=used, room="60m") as small:
        small.do("rm", "-r", ".venv")
        line = message(small.run("scripts/demo"))
        assert re.fullmatch(
            r"pip cannot install the libraries into \.venv: No space left on device: .*", line
        )
        assert not small.path(f"{CHECKOUT}/.venv").exists()
    copy.do("mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", "/tmp")
    assert re.fullmatch(
        r"/tmp has 52 MB free, but a private server needs about \d+: "
        r"free some space, or set TMPDIR to another folder",
        message(copy.run("scripts/demo")),
    )


def test_an_old_python_is_one_line(bare: BareRoot) -> None:
    """With Python 3.9, the line asks for a newer release or Python."""
    sources = bare.path("/etc/apt/sources.list")
    sources.write_text(sources.read_text().replace("bookworm", "bullseye"))
    bare.do("apt-get", "-q", "update")
    bare.do("apt-get", "-q", "-y", "--no-install-recommends", "install", "python3-minimal")
    assert "Python 3.9" in bare.do("python3", "--version")
    assert message(bare.run("scripts/demo")) == (
        "Python 3.11 or newer is needed, with its venv module, and none is on the PATH, nor has "
        "Debian GNU/Linux 12 (bookworm): take a newer release, or name one in PYTHON"
    )


def test_an_unreachable_package_index_is_one_line(copy: BareRoot) -> None:
    """And no .venv is left."""
    copy.do("rm", "-r", ".venv")
    nowhere = {**IMPATIENT, "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": "/dev/null"}
    line = message(copy.run("scripts/demo", variables=nowhere))
    assert re.fullmatch(
        rf"pip cannot install the libraries into \.venv: .*: {re.escape(UNREACHABLE)}", line
    )
    assert not copy.path(f"{CHECKOUT}/.venv").exists()


def test_a_port_in_use_is_one_line(copy: BareRoot) -> None:
    """If it was requested; the default port in use is no failure."""
    words = copy.command(".venv/bin/python", "-c", LISTEN)
    usual = subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with usual:  # it ends with its input
        assert usual.stdout is not None
        assert usual.stdout.readline() == "ready\n"
        address = ("--web.listen-address", "127.0.0.1:10104")
        assert message(copy.run("scripts/demo", *address)) == (
            "cannot listen on 127.0.0.1:10104: Address already in use; "
            "choose another with --web.listen-address HOST:PORT"
        )
        done = copy.run("scripts/demo", "--seconds", "2")
        assert done.returncode == 0, done
        assert "port 10104 is taken; the page uses a free port instead" in done.stdout
