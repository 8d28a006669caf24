"""The scripts work on a bare machine, or say in one line what is missing."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.real.server_programs import CACHE, ROOT, missing, server_program

SCRIPTS = [*sorted((ROOT / "scripts").iterdir()), ROOT / ".ci/run"]
TOOLS = (
    "sh awk basename cat chmod cksum cp dirname env find grep head id ls mkdir mktemp mv rm sed "
    "setsid sleep tail touch"
)
LATER_PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the least of commands, to be the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS.split():
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the scripts and little else."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        (folder / name).write_text("[project]\n")
    return folder


@pytest.fixture
def shell(tools: Path, checkout: Path) -> Shell:
    """Run a few lines of shell that have the functions of lib.sh."""

    def run(lines: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [tools / "sh", "-euc", f". scripts/lib.sh\n{lines}", "it"],
            cwd=checkout,
            env={"PATH": str(tools), "TMPDIR": str(checkout)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def fake(folder: Path, name: str, body: str) -> None:
    """Put a command there that is a few lines of shell; it takes the place of one of that name."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!{shutil.which('sh')}\n{body}\n")
    (folder / name).chmod(0o755)


def only_line(text: str) -> str:
    """The one line that the text is."""
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(script: Path) -> None:
    """Each parses, is executable (but for the library), and stops at the first error."""
    text = script.read_text()
    interpreter = "bash" if "bash" in text.splitlines()[0] else "sh"
    subprocess.run([interpreter, "-n", script], check=True)
    if script.name != "lib.sh":
        assert os.access(script, os.X_OK)
        assert re.search(r"^set -eu", text, re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_names_a_mirror(script: Path) -> None:
    """The machine's configuration decides where packages come from."""
    assert "://" not in script.read_text()


@pytest.mark.parametrize("newest", LATER_PYTHONS)
def test_any_recent_python_is_found(shell: Shell, tools: Path, newest: str) -> None:
    """Under each of its names, past one that is too old."""
    fake(tools, "python3", "exit 1")
    fake(tools, newest, "exit 0")
    assert shell("find_python").stdout.strip() == str(tools / newest)


def test_the_venv_is_installed_once(shell: Shell, checkout: Path) -> None:
    """And again only for another extra or a changed file."""
    (checkout / ".venv/bin").mkdir(parents=True)
    fake(checkout / ".venv/bin", "python", 'echo "$@" >>calls')

    def installs(extra: str) -> int:
        assert shell(f'venv_with "{extra}"').returncode == 0
        return (checkout / "calls").read_text().count("--editable .\n")

    assert [installs(""), installs(""), installs("dev"), installs("")] == [1, 1, 2, 2]
    (checkout / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    assert [installs("dev"), installs("dev")] == [3, 3]
    (checkout / "requirements-dev.lock").write_text("changed")
    assert [installs("dev"), installs("dev")] == [4, 4]
    calls = (checkout / "calls").read_text()
    assert calls.count("--require-hashes --requirement requirements.lock\n") == 1
    assert calls.count("--require-hashes --requirement requirements-dev.lock\n") == 3


@pytest.mark.parametrize("command", ["sh -c 'trap \"exit 1\" TERM; sleep 600 & wait'", "sleep 600"])
def test_what_is_interrupted_at_its_very_start_ends(
    tools: Path, checkout: Path, shell: Shell, command: str
) -> None:
    """Before it has a session of its own, where the signal can reach all its children."""
    really = shutil.which("setsid")
    fake(tools, "setsid", f'touch started; sleep 0.5; exec {really} "$@"')
    signal = "while [ ! -e started ]; do sleep 0.01; done; kill $$"
    done = shell(f"({signal}) & new_log; interruptible {command}")
    assert done.returncode == 130
    assert only_line(done.stderr) == "it: ending …"
    assert not _running_in(checkout)


def test_what_a_command_starts_when_it_is_asked_to_end_ends_too(
    checkout: Path, shell: Shell
) -> None:
    """It was not there yet when all its children were asked, and would be waited for."""
    command = "sh -c 'trap \"sleep 600 & exit 1\" TERM; while :; do sleep 0.1; done'"
    done = shell(f"(sleep 0.5; kill $$) & new_log; interruptible {command}")
    assert done.returncode == 130
    assert not _running_in(checkout)


def _running_in(folder: Path) -> list[str]:
    """The commands of the processes whose working directory that is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text())
    return found


def test_a_failed_fetch_leaves_the_old_tree(shell: Shell, tools: Path, checkout: Path) -> None:
    """If packages cannot be downloaded, one line says why and the tree is unchanged."""
    tree = checkout / ".cache/thing"
    tree.mkdir(parents=True)
    (tree / "old").touch()
    fake(tools, "apt-get", 'echo "E: no network"; exit 100')
    done = shell("unpack_packages .cache/thing own thing")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "it: cannot read the package lists: E: no network"
    assert [path.name for path in (checkout / ".cache").iterdir()] == ["thing"]
    assert (tree / "old").exists()


def test_a_fetched_tree_is_pruned_and_kept(shell: Shell, tools: Path, checkout: Path) -> None:
    """It is put into place as a whole, and not fetched again."""
    fake(
        tools,
        "apt-get",
        'echo "$*" >>"$HOME/calls"; case "$*" in '
        '*" -s "*) echo "Inst perl-base (1)"; echo "Inst thing (1)";; '
        "*download*) touch thing.deb;; esac",
    )
    fake(tools, "dpkg-deb", 'mkdir -p "$3/usr/share"; touch "$3/usr/thing"')
    fetch = f"HOME={checkout}; export HOME; small() {{ rm -r usr/share; }}; prune=small\n"
    fetch += "unpack_packages .cache/thing own thing"
    assert shell(fetch).returncode == 0
    tree = checkout / ".cache/thing"
    assert sorted(path.name for path in tree.rglob("*")) == [".stamp", "thing", "usr"]
    calls = (checkout / "calls").read_text()
    assert "download thing\n" in calls
    done = shell(fetch)
    assert (done.returncode, done.stderr) == (0, "")
    assert (checkout / "calls").read_text() == calls


@pytest.mark.parametrize("script", ["demo", "test"])
def test_arguments_are_passed_on(script: str, checkout: Path, tools: Path) -> None:
    """To the program, from whatever folder the script is called."""
    folder = checkout / ".venv/bin"
    folder.mkdir(parents=True)
    for name in ("python", "mysql-headroom"):
        fake(folder, name, 'case $* in *pip*) ;; *) echo "$@";; esac')
    fake(checkout / "scripts", "install-mysql", "exit 0")
    for name in ("mariadbd", "sysbench", "prometheus", "promtool"):
        fake(tools, name, "exit 0")
    done = subprocess.run(
        [checkout / "scripts" / script, "--port", "0"],
        cwd="/",
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert only_line(done.stdout).endswith("--port 0")


def test_mysql_is_fetched_once() -> None:
    """With the tree in place the script is silent; it has MySQL, not MariaDB."""
    if not (CACHE / "mysql").exists():
        missing("MySQL in .cache")
    done = subprocess.run(
        [ROOT / "scripts/install-mysql"], capture_output=True, text=True, check=True, timeout=5
    )
    assert (done.stdout, done.stderr) == ("", "")
    found = server_program("mysql")
    assert found is not None
    assert found.tree == CACHE / "mysql"
    assert tuple(map(int, found.version.split("."))) >= (8, 0, 28)


def test_compose_is_version_2(compose: str) -> None:
    """It supports `config -q` without a daemon."""
    answer = subprocess.run([compose, "version"], capture_output=True, text=True, check=True)
    assert "v2." in answer.stdout or " 2." in answer.stdout
