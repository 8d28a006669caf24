"""A really booted systemd, in its own namespaces on an overlay of a root.

That of this machine shares its network, and nothing else: what it writes is gone with it, its
processes too. One of a Debian that was made for the purpose has a network of its own.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.real.namespaces import MAKE_DEVICES
from testbed.real.server_programs import ROOT

INIT = Path("/lib/systemd/systemd")
TOOLS = ("unshare", "nsenter", "setpriv", "mount", "systemctl")
NAMESPACES = ("--pid", "--mount", "--uts", "--ipc", "--cgroup")
BOOT_SECONDS, GONE_SECONDS = 20.0, 5.0
COMMAND_SECONDS = 240.0  # an installation, on a busy machine
INSTALLED = Path("/opt/mysql-headroom")

# In a control group of its own, lest two machines share their services' groups.
ENTER_GROUP = 'if [ -n "$1" ]; then echo 0 >"$1/cgroup.procs"; fi; shift; exec "$@"'

# As root of a new machine, in the folder $1 over the root $2: file systems and programs.
BOOT = (
    r"""
set -eu
cd "$1"; below=$2; shift 2
mount -t tmpfs tmpfs . && cd "$PWD"
mkdir upper work root
mount -t overlay overlay -o lowerdir="$below",upperdir="$PWD/upper",workdir="$PWD/work" root
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
"""
    + MAKE_DEVICES
    + r"""
for folder in run tmp; do mount -t tmpfs tmpfs $folder; done
chmod 1777 tmp
: > etc/machine-id
rm -rf etc/systemd/system etc/mysql-headroom opt/mysql-headroom var/log/journal
mkdir -p etc/systemd/system .old
for pair; do
    mkdir -p ".${pair##*=}"
    mount --bind "${pair%%=*}" ".${pair##*=}"
done
pivot_root . .old
umount -l /.old
mount --make-rshared /
exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target
"""
)

# What pip would install: the same Python with the same packages, at a path that its user can read.
PROGRAM = f"""\
#!/bin/sh
export PYTHONHOME={INSTALLED}/python PYTHONPATH={INSTALLED}/app:{INSTALLED}/packages
export LD_LIBRARY_PATH={INSTALLED}/python/lib
exec {INSTALLED}/python/bin/python{sys.version_info[0]}.{sys.version_info[1]} \
-c 'from agent.cli import main; raise SystemExit(main())' "$@"
"""


def why_not() -> str:
    """Return why no machine can be booted here; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    lacking = [tool for tool in TOOLS if not shutil.which(tool)]
    if not INIT.exists():
        lacking.append(str(INIT))
    return f"no {', '.join(lacking)} here" if lacking else ""


class Machine:
    """Booted on entry, gone on exit, whatever happened.

    On this machine's own root the agent's program is installed; on another it is not, and the
    network is its own.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._is_ours = root == Path("/")

    def __enter__(self) -> Self:
        """Boot."""
        self._folder = Path(tempfile.mkdtemp(prefix="hr-machine-"))
        self.log = self._folder.with_suffix(".log")
        self._group = _new_group(self._folder.name)
        try:
            self._boot()
            self._install()
            if not self._is_ours:
                self._in_its_network("ip", "link", "set", "lo", "up")
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

    def run(self, *command: str, check: bool = True, **options: object) -> str:
        """Run a command inside; return its output with standard error, or fail."""
        inside = ("nsenter", "--target", str(self._init), "--all", *command)
        result = subprocess.run(  # type: ignore[call-overload]
            inside,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            env={"PATH": os.environ["PATH"] + ":/usr/sbin"},
            **options,
        )
        assert not check or result.returncode == 0, f"{' '.join(command)}: {result.stdout}"
        return str(result.stdout)

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Write a file inside."""
        self.run("install", "-D", "-m", mode, "/dev/stdin", path, input=text)

    def put(self, file: Path, inside: str) -> None:
        """Copy a file of this machine to a path inside."""
        shutil.copyfile(file, f"/proc/{self._init}/root{inside}")

    def connect(self, ours: str, theirs: str) -> None:
        """Connect its network by a cable, with an address at either end."""
        ip, name = "ip", f"hr-{self._init}"
        for command in (
            f"link add {name} type veth peer name eth0 netns {self._init}",
            f"addr add {ours}/30 dev {name}",
            f"link set {name} up",
        ):
            subprocess.run([ip, *command.split()], check=True, capture_output=True)
        self._in_its_network(ip, "addr", "add", f"{theirs}/30", "dev", "eth0")
        self._in_its_network(ip, "link", "set", "eth0", "up")

    def _in_its_network(self, *command: str) -> None:
        inside = ("nsenter", "--target", str(self._init), "--net", *command)
        subprocess.run(inside, check=True, capture_output=True)

    def _pairs(self) -> dict[str, str]:
        """Mounts into our own root, so that the agent is there without an installation."""
        if not self._is_ours:
            return {}
        site = next(path for path in sys.path if path.endswith("site-packages"))
        return {
            str(Path(sys.base_prefix).resolve()): "python",
            site: "packages",
            **{str(ROOT / name): f"app/{name}" for name in ("agent", "collectors", "models")},
        }

    def _boot(self) -> None:
        binds = [f"{source}={INSTALLED}/{inside}" for source, inside in self._pairs().items()]
        script = ("sh", "-c", BOOT, "boot", str(self._folder), str(self.root), *binds)
        group = ("sh", "-c", ENTER_GROUP, "group", str(self._group or ""))
        outer = ("setpriv", "--pdeathsig", "KILL")  # lives no longer than we
        network = () if self._is_ours else ("--net",)
        kinds = (*NAMESPACES, *network)
        inner = ("unshare", "--fork", "--kill-child", "--propagation", "private", *kinds)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*group, *outer, *inner, *script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._init = self._wait_for_init()

    def _wait_for_init(self) -> int:
        deadline = time.monotonic() + BOOT_SECONDS
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while time.monotonic() < deadline and self._process.poll() is None:
            pids = children.read_text().split()
            if pids and Path(f"/proc/{pids[0]}/comm").read_text() == "systemd\n":
                self._init = int(pids[0])
                state = self.run("systemctl", "is-system-running", check=False).strip()
                if state in ("running", "degraded"):
                    return self._init
            time.sleep(0.05)
        raise OSError(f"systemd did not boot: {self.log.read_text()[-2000:]}")

    def _install(self) -> None:
        if not self._is_ours:
            return
        self.write(f"{INSTALLED}/bin/mysql-headroom", PROGRAM, "755")

    def _remove(self) -> None:
        """Killing the outermost process kills the first inside, and that one all the others."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if self._group:
            _remove_group(self._group)
        shutil.rmtree(self._folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)


def _new_group(name: str) -> Path | None:
    """Create a group beside ours, in the unified hierarchy; None if that is not writable."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    ours = Path("/proc/self/cgroup").read_text().splitlines()[-1].removeprefix("0::/")
    try:
        group = places[0] / ours / name
        group.mkdir()
    except (IndexError, OSError):
        return None
    return group


def _remove_group(group: Path) -> None:
    """Remove it once the last process has ended, from the leaves up."""
    deadline = time.monotonic() + GONE_SECONDS
    while "populated 1" in (group / "cgroup.events").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()
