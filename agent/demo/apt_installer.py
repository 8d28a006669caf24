"""List and install the distribution's packages by apt."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agent.support.errors import HeadroomError

OPTIONS = ("-q", "-y", "--no-install-recommends", "--no-remove", "-o", "DPkg::Lock::Timeout=60")
DISK_FULL = r"[Nn]o space left on device|You don't have enough free space in \S*[^\s.]"
FULL_REMEDY = "free some space and run this again"
UNREACHABLE = (
    r"Temporary failure resolving '[^']*'|Could not resolve '[^']*'|Network is unreachable"
    r"|Connection refused|[Cc]onnection timed out|Cannot initiate the connection to \S*"
    r"|Could not connect to \S*"
)


class PackageError(HeadroomError):
    """Packages cannot be installed; the message says why and what to do, in one line."""


def can_install() -> bool:
    """Say whether there is apt, and we are root or become it without a question."""
    return _apt() is not None and (os.geteuid() == 0 or _run([*_root(), "true"]).returncode == 0)


def has_lists() -> bool:
    """Say whether apt has read which packages there are."""
    return any(Path("/var/lib/apt/lists").glob("*Packages*"))


def has_candidate(name: str) -> bool:
    """Say whether there is a package of that name to install; a purely virtual one is none."""
    if shutil.which("apt-cache") is None:
        return False
    answer = _run(["apt-cache", "policy", name])
    found = (
        rf"^{re.escape(name)}:\n  Installed: .*\n  Candidate: \d"  # apt takes regular expressions
    )
    return re.search(found, answer.stdout, re.MULTILINE) is not None


def read_lists() -> None:
    """Have apt read which packages there are."""
    done = _run([*_root(), "apt-get", "-q", "update"])
    if not has_lists():
        raise PackageError(f"cannot read the package lists: {_reason(done)}")


def install(names: Sequence[str]) -> None:
    """Install packages: asking nothing, removing and recommending nothing.

    The download can be interrupted; what dpkg has begun is brought to its end first.
    """
    download = [*_root(), "apt-get", *OPTIONS, "--download-only", "install", *names]
    done = _run(download)
    if done.returncode != 0:
        read_lists()
        done = _run(download)
    if done.returncode == 0:
        _need_room(done.stdout)
        unpack = [*_root(), "apt-get", *OPTIONS, "--no-download", "install", *names]
        done = _run(unpack, to_its_end=True)
    if done.returncode != 0:
        raise PackageError(f"cannot install {' '.join(names)}: {_reason(done)}")


def _need_room(said: str) -> None:
    """Refuse what would fill the disk, for dpkg would stop half-way."""
    need = re.search(r"After this operation, ([\d,.]+) ([kM])B of additional", said)
    size = float(need[1].replace(",", "")) * {"k": 1e3, "M": 1e6}[need[2]] if need else 0.0
    if size > shutil.disk_usage("/usr").free:
        raise PackageError(f"{size / 1e6:.0f} MB are needed in /usr: {FULL_REMEDY}")


def command_to_install(names: Sequence[str]) -> str:
    """Return what an administrator has to type."""
    update = "" if has_lists() else "apt-get update && "
    return f"{update}apt-get install --no-install-recommends {' '.join(names)}"


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    """Say in one line why apt failed, with what to do where that is known."""
    text = done.stdout + done.stderr
    if full := re.search(DISK_FULL, text):
        return f"{full[0]}: {FULL_REMEDY}"
    if unreachable := re.search(UNREACHABLE, text):
        return f"{unreachable[0]}: is there a network, and does it need a proxy?"
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return next(reversed(errors or lines), f"exit code {done.returncode}")


def _apt() -> str | None:
    return shutil.which("apt-get")


def _root() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _run(command: list[str], *, to_its_end: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run a command in a session of its own, which a Ctrl-C at the terminal does not reach."""
    variables = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    settings = [f"{name}={value}" for name, value in variables.items()]
    words = command
    if command[:1] == ["sudo"]:
        words = [*command[:2], "env", *settings, *command[2:]]  # sudo passes no variables on
    try:
        process = subprocess.Popen(  # noqa: S603 - our own words only
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | variables,
            start_new_session=True,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
    with process:
        try:
            text, _ = process.communicate()
        except BaseException:
            if not to_its_end:
                _run([*_root(), "sh", "-c", f"kill -- -{process.pid}"], to_its_end=True)
            process.communicate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, text, "")
