"""Look up and install the distribution's packages with apt."""

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
    """Return whether apt exists, and root rights are available without a prompt."""
    return _apt_path() is not None and (
        os.geteuid() == 0 or _run([*_sudo_prefix(), "true"]).returncode == 0
    )


def has_package_lists() -> bool:
    """Return whether apt has package lists."""
    return any(Path("/var/lib/apt/lists").glob("*Packages*"))


def has_candidate(name: str) -> bool:
    """Return whether apt can install a package of that name, and not a purely virtual one."""
    if shutil.which("apt-cache") is None:
        return False
    answer = _run(["apt-cache", "policy", name])
    pattern = (
        rf"^{re.escape(name)}:\n  Installed: .*\n  Candidate: \d"  # apt takes regular expressions
    )
    return re.search(pattern, answer.stdout, re.MULTILINE) is not None


def update_package_lists() -> None:
    """Update apt's package lists; raises PackageError if there are still none."""
    done = _run([*_sudo_prefix(), "apt-get", "-q", "update"])
    if not has_package_lists():
        raise PackageError(f"cannot read the package lists: {_reason(done)}")


def install(names: Sequence[str]) -> None:
    """Install packages without prompts, removals or recommended packages; raises PackageError.

    The download can be interrupted; once dpkg has begun, it is waited for.
    """
    download = [*_sudo_prefix(), "apt-get", *OPTIONS, "--download-only", "install", *names]
    done = _run(download)
    if done.returncode != 0:
        update_package_lists()
        done = _run(download)
    if done.returncode == 0:
        _require_disk_space(done.stdout)
        unpack = [*_sudo_prefix(), "apt-get", *OPTIONS, "--no-download", "install", *names]
        done = _run(unpack, uninterruptible=True)
    if done.returncode != 0:
        raise PackageError(f"cannot install {' '.join(names)}: {_reason(done)}")


def _require_disk_space(output: str) -> None:
    """Raise PackageError if the packages do not fit on the disk, where dpkg would stop half-way."""
    need = re.search(r"After this operation, ([\d,.]+) ([kM])B of additional", output)
    size = float(need[1].replace(",", "")) * {"k": 1e3, "M": 1e6}[need[2]] if need else 0.0
    if size > shutil.disk_usage("/usr").free:
        raise PackageError(f"{size / 1e6:.0f} MB are needed in /usr: {FULL_REMEDY}")


def install_command(names: Sequence[str]) -> str:
    """Return the shell command that installs these packages."""
    update = "" if has_package_lists() else "apt-get update && "
    return f"{update}apt-get install --no-install-recommends {' '.join(names)}"


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    """Return in one line why apt failed, with the remedy where that is known."""
    text = done.stdout + done.stderr
    if full := re.search(DISK_FULL, text):
        return f"{full[0]}: {FULL_REMEDY}"
    if unreachable := re.search(UNREACHABLE, text):
        return f"{unreachable[0]}: is there a network, and does it need a proxy?"
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return next(reversed(errors or lines), f"exit code {done.returncode}")


def _apt_path() -> str | None:
    return shutil.which("apt-get")


def _sudo_prefix() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _run(
    command: list[str], *, uninterruptible: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a session of its own, which a Ctrl-C at the terminal does not reach.

    If an exception interrupts it, the command is killed, or awaited if `uninterruptible`.
    """
    variables = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    settings = [f"{name}={value}" for name, value in variables.items()]
    words = command
    if command[:1] == ["sudo"]:
        words = [*command[:2], "env", *settings, *command[2:]]  # sudo does not pass variables on
    try:
        process = subprocess.Popen(  # noqa: S603 - no outside input
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
            if not uninterruptible:
                _run([*_sudo_prefix(), "sh", "-c", f"kill -- -{process.pid}"], uninterruptible=True)
            process.communicate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, text, "")
