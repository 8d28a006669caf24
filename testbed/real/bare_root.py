"""A bare Debian in its own namespaces, whose files and processes end with it.

Its root is an overlay on a tree that `scripts/make-bare-root` made. It has this machine's network
(or none), its control groups, and the settings by which it reaches its package registries.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.data_file_paths import FOLDER
from testbed.real.namespaces import MAKE_DEVICES
from testbed.real.server_programs import CACHE, ROOT, missing

CHECKOUT = "/root/mysql-headroom"
HOME = "/root"
READY_SECONDS, GONE_SECONDS = 20.0, 5.0
ROOM = "3g"  # of memory at most, for all that is written

# As the first process of the new namespaces, in the folder $1, over the trees $2. What is mounted
# on the root from outside later on appears inside, and nothing else of this machine does.
# That the process ignores SIGCHLD has the kernel remove the orphans that it inherits.
SETUP = rf"""
set -eu
mount -t tmpfs -o "size=$3,mode=755" tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" root
mount --make-shared root
cd root
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup sys/fs/cgroup
{MAKE_DEVICES}
mount -t tmpfs -o mode=755 tmpfs run
exec unshare --mount --propagation slave sh -euc '
    pivot_root . mnt
    cd /
    umount -l /mnt
    exec env --ignore-signal=CHLD sleep infinity'
"""

FILES = (
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "~/.config/pip/pip.conf",
    "~/.pip/pip.conf",
)
AUTHORITIES = "/usr/local/share/ca-certificates"
SETTINGS = ("PIP_", "SSL_CERT_", "REQUESTS_CA_", "CURL_CA_")
APT_SETTINGS = ("http", "https", "Check-Valid-Until", "Check-Date", "Retries", "Languages")


class BareRoot:
    """One bare machine, from entry to exit.

    `below` is another bare machine, at rest, whose state this one starts from.
    """

    def __init__(self, release: str, *, below: "BareRoot | None" = None, room: str = ROOM) -> None:
        self._tree = CACHE / release
        self._below = below
        self._room = room
        self._disk: Path | None = None

    def __enter__(self) -> Self:
        """Mount it, with a first process that does nothing."""
        if os.geteuid() != 0:
            missing("bare Debian", "only root can mount one")
        if not self._tree.exists():
            missing(f"bare {self._tree.name}")
        self._folder = Path(tempfile.mkdtemp(prefix="hr-bare-"))
        try:
            self._start()
            if self._below is None:
                self._hand_over()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all its processes, and with the last of them its mounts."""
        self._remove()

    def path(self, inside: str) -> Path:
        """Return the path on this machine of a file in the bare one."""
        return Path(f"/proc/{self._init}/root{inside}")

    def check_out(self) -> None:
        """Clone this checkout's HEAD into it, as a new user does."""
        to = f"{self._folder}/root{CHECKOUT}"
        clone = ("git", "clone", "--quiet", "--depth=1", ROOT.as_uri(), to)
        self._outside(*clone)

    def share_cache(self) -> None:
        """Share this checkout's cache of downloads with it; new files stay in it."""
        upper, work = f"{self._folder}/cache", f"{self._folder}/cache-work"
        layers = f"lowerdir={CACHE},upperdir={upper},workdir={work}"
        mount = 'mkdir "$1" "$2" "$4" && mount -t overlay overlay -o "$3" "$4"'
        over = f"{self._folder}/root{CHECKOUT}/.cache"
        self._outside("sh", "-euc", mount, "sh", upper, work, layers, over)

    def share_data(self) -> None:
        """Mount the data sets beside this checkout, if any, beside that one."""
        if FOLDER.is_dir():
            inside = FOLDER.relative_to(ROOT.parent)
            self._bind(FOLDER.resolve(), Path(CHECKOUT).parent / inside)

    def add_disk(self) -> None:
        """Mount a folder of this machine's disk for /tmp and the containers' images.

        The kernel throttles no memory, and Docker makes no layers on an overlay.
        """
        self._disk = Path(tempfile.mkdtemp(prefix="hr-bare-disk-"))
        self._disk.chmod(0o755)
        for name, place in (("tmp", "/tmp"), ("docker", f"{CHECKOUT}/.cache/docker")):
            source = self._disk / name
            source.mkdir()
            source.chmod(0o1777)
            self._bind(source, place)

    def _bind(self, source: Path, place: Path | str) -> None:
        """Bind-mount a folder of this machine at that path inside."""
        bind = 'mkdir -p "$2" && mount --bind "$1" "$2"'
        over = f"{self._folder}/root{place}"
        self._outside("sh", "-euc", bind, "sh", str(source), over)

    def command(
        self,
        *words: str,
        network: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the words that run a command inside, in the checkout if there is one."""
        enter = ("nsenter", f"--target={self._init}", "--mount", "--pid", "--root", "--wdns=/")
        offline = () if network else ("unshare", "--net")
        settings = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": HOME,
            **{name: text for name, text in os.environ.items() if _is_setting(name)},
            **(variables or {}),
        }
        environment = ("env", "-i", *(f"{name}={text}" for name, text in settings.items()))
        go = ("sh", "-c", f'cd {CHECKOUT} 2>/dev/null; exec "$@"', "sh")
        return [*enter, *offline, *environment, *go, *words]

    def run(
        self, *words: str, timeout: float = 300.0, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside to its end."""
        return subprocess.run(
            self.command(*words, **options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def do(self, *words: str, **options: Any) -> str:
        """Run a command inside that must succeed; return its output."""
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> list[str]:
        """Return the processes inside but for the first: IDs of this machine and command lines."""
        namespace = Path(f"/proc/{self._init}/ns/pid").readlink()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if words and (process / "ns/pid").readlink() == namespace:
                    found.append(f"{process.name} {words}")
            except OSError:  # it has ended
                continue
        return [words for words in found if int(words.split()[0]) != self._init]

    def state(self) -> dict[str, list[str]]:
        """List what a command may leave behind: mounts, temporary files, a policy for services."""
        mounts = Path(f"/proc/{self._init}/mountinfo").read_text().splitlines()
        places = ("/tmp", "/var/tmp", "/dev/shm", "/run")
        state = {place: sorted(p.name for p in self.path(place).iterdir()) for place in places}
        policy = [str(path) for path in self.path("/usr/sbin").glob("policy-rc.d")]
        return state | {"mounts": sorted(line.split()[4] for line in mounts), "policy": policy}

    def _start(self) -> None:
        outer = ["setpriv", "--pdeathsig", "KILL"]  # it lives no longer than we
        lower = str(self._tree)
        if self._below is not None:
            outer += ["nsenter", f"--target={self._below._process.pid}", "--mount"]
            lower = f"{self._below._folder}/upper:{lower}"
        outer += ["unshare", "--fork", "--kill-child", "--propagation", "private"]
        outer += ["--pid", "--mount", "--ipc", "--uts"]
        setup = ["sh", "-c", SETUP, "setup", str(self._folder), lower, self._room]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [*outer, *setup],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self._init: int = _first_child(self._process)
        root = Path(f"/proc/{self._init}/root")  # ours, until it has changed it
        ended = self._process.poll
        _wait_for("a bare root", lambda: ended() is not None or not root.samefile("/"))
        if ended() is not None:
            raise OSError(f"no bare root: {self._process.communicate()[1]}")

    def _outside(self, *words: str) -> None:
        """Run a command of this machine that sees the root's mounts and its own files."""
        enter = ("nsenter", f"--target={self._process.pid}", "--mount")
        subprocess.run([*enter, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL)

    def _hand_over(self) -> None:
        """Copy this machine's settings for its package registries into it."""
        for name in FILES:
            source = Path(name).expanduser()
            if source.exists():
                target = self.path(name.replace("~", HOME))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        if Path(AUTHORITIES).exists():  # for when a package rewrites the whole file
            shutil.copytree(AUTHORITIES, self.path(AUTHORITIES), dirs_exist_ok=True)
        keys = [f"Acquire::{name}" for name in APT_SETTINGS]
        dump = subprocess.run(
            ["apt-config", "dump", *keys], capture_output=True, text=True, check=True
        )
        self.path("/etc/apt/apt.conf.d/99machine").write_text(dump.stdout)

    def _remove(self) -> None:
        """Kill the outermost process, which kills the first one inside, and that all others."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        for folder in filter(None, (self._folder, self._disk)):
            shutil.rmtree(folder, ignore_errors=True)


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _first_child(process: "subprocess.Popen[str]") -> int:
    _wait_for("a process", lambda: children(process.pid) or process.poll() is not None)
    found = children(process.pid)
    if not found:
        raise OSError(f"no bare root: {process.communicate()[1]}")
    return found[0]


def _wait_for(what: str, predicate: Callable[[], object]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not predicate():
        assert time.monotonic() < deadline, f"not within {READY_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


def _is_setting(name: str) -> bool:
    return name.startswith(SETTINGS) or name.lower().endswith("_proxy")
