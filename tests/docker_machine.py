"""A Docker daemon for the tests, in its own namespaces: network, processes and mounts.

Nothing can be pulled there, for it has no way out; images are imported and built. What it keeps
(images and layers) lies in the checkout's cache; with its first process all others end.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from testbed.real.server_programs import CACHE, missing, program

READY_SECONDS, GONE_SECONDS = 60.0, 20.0
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
OUTER = ("setpriv", "--pdeathsig", "KILL")  # lives no longer than we
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")

# The first process of the new namespaces: it passes SIGTERM on and inherits the orphans.
INIT = """
ip link set lo up
"$@" &
trap "kill $!" TERM
wait; wait
"""


class DockerMachine:
    """One daemon, from entry to exit; `compose` is the path of Docker compose v2."""

    def __init__(self, compose: str, data: Path = CACHE / "docker") -> None:
        self._compose = compose
        self._data = data

    def __enter__(self) -> Self:
        """Start the daemon and wait until it answers."""
        if os.geteuid() != 0:
            missing("Docker daemon", "only root can start one")
        dockerd = shutil.which("dockerd", path=PATH) or missing("dockerd")
        self._client = program("docker", first=Path(dockerd).parent.parent / "bin")
        self._folder = Path(tempfile.mkdtemp(prefix="hr-docker-"))
        self._data.mkdir(parents=True, exist_ok=True)
        words = {
            "data-root": self._data,
            "exec-root": self._folder / "exec",
            "pidfile": self._folder / "pid",
            "host": self._host,
            "default-ulimit": "nofile=4096:4096",
            "storage-driver": "overlay2",
        }
        options = [f"--{name}={value}" for name, value in words.items()]
        self._log = (self._folder / "log").open("wb")
        self._outer = subprocess.Popen(
            [*OUTER, "unshare", *NAMESPACES, "sh", "-c", INIT, "sh", dockerd, *options],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PATH": PATH},
            start_new_session=True,
        )
        try:
            self._wait_until_it_answers()
            self._clear()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the daemon and every container."""
        self.close()

    def close(self) -> None:
        """Stop it orderly, so that the containers' cgroups are removed; or else at once."""
        try:
            for first in psutil.Process(self._outer.pid).children():
                first.send_signal(signal.SIGTERM)
            self._outer.wait(GONE_SECONDS)
        except (psutil.NoSuchProcess, subprocess.TimeoutExpired):
            pass
        finally:
            self._outer.kill()
            self._outer.wait()
            self._log.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _host(self) -> str:
        return f"unix://{self._folder}/s"

    @property
    def log(self) -> str:
        """Return the daemon's log."""
        return (self._folder / "log").read_text(errors="replace")

    def docker(self, *words: str | Path, standard_input: bytes | None = None) -> str:
        """Run the client; return its output, stripped."""
        return self.run([self._client, *words], standard_input=standard_input)

    def compose(self, *words: str | Path, variables: Mapping[str, str] | None = None) -> str:
        """Run compose; return its output, stripped."""
        return self.run([self._compose, *words], variables=variables)

    def run(
        self,
        command: list[str | Path],
        *,
        variables: Mapping[str, str] | None = None,
        standard_input: bytes | None = None,
    ) -> str:
        """Run a program that talks to the daemon; the classic builder needs no plug-in."""
        own = {"DOCKER_HOST": self._host, "DOCKER_BUILDKIT": "0", "PATH": PATH}
        done = subprocess.run(
            command,
            input=standard_input,
            stdin=subprocess.DEVNULL if standard_input is None else None,
            capture_output=True,
            check=False,
            timeout=280,
            env={**os.environ, **own, **(variables or {})},
        )
        said = done.stderr.decode(errors="replace").strip()
        assert done.returncode == 0, f"{command[1:]}: {said}"
        return done.stdout.decode(errors="replace").strip()

    def get(self, url: str) -> str:
        """Fetch a page as a client in the daemon's network."""
        [first] = psutil.Process(self._outer.pid).children()
        enter = ["nsenter", f"--target={first.pid}", "--net"]
        fetch = ["curl", "--silent", "--show-error", "--fail", "--max-time", "5", url]
        return self.run([*enter, *fetch])

    def _clear(self) -> None:
        """Remove what a run that was killed has left in the cache."""
        if left := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", *left)
        self.docker("volume", "prune", "--force")
        self.docker("network", "prune", "--force")

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.docker("version")
                return
            except AssertionError:
                assert self._outer.poll() is None, f"dockerd has ended:\n{self.log}"
                assert time.monotonic() < deadline, f"dockerd does not answer:\n{self.log}"
                time.sleep(0.1)
