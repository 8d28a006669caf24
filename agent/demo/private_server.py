"""Private MySQL and MariaDB servers with their own folder, port and socket, removed at exit.

with PrivateServer(find_server()) as server:
    server.connect_as_root()
"""

import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pymysql
from pymysql.cursors import Cursor

from agent.demo.cleanup_guard import Guard
from agent.demo.os_user import ServerUser
from agent.demo.server_command_lines import (
    DATA,
    ERROR_LOG,
    ONLY_LOCALHOST,
    SOCKET,
    UNWRITABLE_FOLDER,
    feature_options,
    initialise_command,
    restrict_command,
    start_command,
)
from agent.demo.server_installation import (
    FLAVOUR_NAMES,
    Flavour,
    Program,
    ServerError,
    find_server,
)

__all__ = ["Flavour", "PrivateServer", "Program", "ServerError", "find_server", "free_port"]

START_SECONDS = 60.0
STOP_SECONDS = 30.0
FOLDER_PREFIX = "headroom-"
SOCKET_PATH_LIMIT = 107  # bytes of a path in sockaddr_un, without the final zero
PORTS = range(20_000, 32_000)  # below the ephemeral ports of the kernel
PORT_ATTEMPTS = 5
PORT_TAKEN = "Address already in use"
LOG_LINES = 20
ERROR_LINE = re.compile(r"(?:\[ERROR\](?: \[[^]]*\])*|\bERROR:) *(.*\S)")
POLL_SECONDS = 0.02


class PrivateServer:
    """A private server, started on entry and removed on exit.

    `options` come last on the command line, so they override the defaults. `template` is a folder
    where the first server of a program keeps its new data directory for the next ones, which saves
    them seconds. The root account has no password and can only use the socket, which is in a folder
    that other users cannot enter. The accounts that the caller creates can use TCP; without
    `network` the server does not listen there. With `unprivileged`, a server started by root runs
    as a nameless user without rights, if that user can reach its files.
    """

    def __init__(
        self,
        program: Program,
        *,
        performance_schema: bool = True,
        log_bin: bool = False,
        network: bool = True,
        unprivileged: bool = False,
        options: Sequence[str] = (),
        template: Path | None = None,
    ) -> None:
        self.program = program
        self.flavour: Flavour = program.flavour
        self.version = program.version
        self.folder = _new_folder()
        self.datadir = self.folder / DATA
        self.socket = str(self.folder / SOCKET)
        self.error_log = self.folder / ERROR_LOG
        self.port = 0
        """On 127.0.0.1; 0 without a network."""
        self._network = network
        self._user = ServerUser.choose(self.folder, program, unprivileged=unprivileged)
        self.options = [
            *feature_options(self.flavour, performance_schema=performance_schema, log_bin=log_bin),
            *options,
        ]
        self._template = template
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    def __enter__(self) -> Self:
        """Create the data directory and start the server."""
        self.folder.mkdir(mode=0o700)
        try:
            (self.folder / UNWRITABLE_FOLDER).mkdir(mode=0o500)
            self._user.take_ownership(self.folder)
            self._guard = Guard(self.folder)
            self._create_data()
            self.start()
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
        """Kill the server and remove its folder; its data need no orderly shutdown."""
        self.close()

    @property
    def name(self) -> str:
        """Flavour and version."""
        return f"{FLAVOUR_NAMES[self.flavour]} {self.version}"

    @property
    def pid(self) -> int:
        """The server's process ID; raises ServerError if it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise ServerError(f"the private {self.name} server is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists (it may be frozen)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers; on the same port if it ran before."""
        if self.is_running:
            return
        if self.port or not self._network:
            self._launch()
            return
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self.port = free_port()
            try:
                self._launch()
            except ServerError:
                if PORT_TAKEN not in self.log_tail() or not attempts_left:
                    raise
            else:
                return

    def stop(self) -> None:
        """Shut the server down; kill it if that takes more than `STOP_SECONDS`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def connect_as_root(self) -> "pymysql.Connection[Cursor]":
        """Connect over the socket with all privileges; the caller closes it."""
        return pymysql.connect(
            unix_socket=self.socket,
            user="root",
            password="",
            connect_timeout=5,
            read_timeout=60,
            autocommit=True,
        )

    def log_tail(self) -> str:
        """Return the last lines that the server wrote to its error log."""
        text = self.error_log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])

    def close(self) -> None:
        """Kill the server, whatever state it is in, and remove its folder."""
        try:
            self.kill()
        finally:
            if self._guard is not None:
                self._guard.release()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _error(self, reason: str) -> ServerError:
        """Return a one-line error with the log's first error; the log's end is added as a note."""
        text = self.log_tail()
        logged = ERROR_LINE.search(text)
        error = ServerError(f"{self.name} {reason}{': ' + logged[1] if logged else ''}")
        error.add_note(f"Its log ends:\n{text}")
        return error

    def _create_data(self) -> None:
        if self._template is not None and self._template.exists():
            _copy_data(self._template, self.datadir)
            self._user.take_ownership(self.datadir)
            return
        self._initialise()
        if self._template is not None:
            _save_template(self.datadir, self._template)

    def _initialise(self) -> None:
        """Initialise a new data directory, without accounts that other users could log in to."""
        user = self._user.option
        self._run_to_end(initialise_command(self.program, self.datadir, user))
        restrict = restrict_command(self.program, self.datadir, user)
        if restrict is not None:
            self._run_to_end(restrict, ONLY_LOCALHOST)

    def _run_to_end(self, command: list[str], sql: bytes = b"") -> None:
        """Run a command that creates or changes the data directory, and wait for its end."""
        with self._open_log() as log:
            try:
                subprocess.run(  # noqa: S603 - no outside input
                    command,
                    input=sql,
                    stdout=log,
                    stderr=log,
                    check=True,
                    timeout=START_SECONDS,
                    cwd=self.folder,
                    env=self._environment(),
                    start_new_session=True,
                    **self._user.arguments(),
                )
            except subprocess.SubprocessError as error:
                reason = f"could not create a data directory ({_reason(error)})"
                raise self._error(reason) from error

    def _environment(self) -> dict[str, str]:
        """Return this process's environment, with temporary files in the server's folder."""
        return os.environ | {"TMPDIR": str(self.folder)}

    def _open_log(self) -> BinaryIO:
        log = self.error_log.open("wb")
        self._user.take_ownership(self.error_log)
        return log

    def _launch(self) -> None:
        port = self.port if self._network else None
        user = self._user.option
        with self._open_log() as log:
            self._process = subprocess.Popen(  # noqa: S603 - no outside input
                start_command(self.program, self.folder, port, user, self.options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
                **self._user.arguments(),
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_answering():
            if process.poll() is not None:
                reason = f"ended with exit code {process.returncode}"
            elif time.monotonic() > deadline:
                reason = f"did not answer within {START_SECONDS:.0f} s"
            else:
                time.sleep(POLL_SECONDS)
                continue
            raise self._error(reason)

    def _is_answering(self) -> bool:
        if not _is_listening(self.socket):  # PyMySQL would leave its own socket open
            return False
        try:
            with self.connect_as_root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except pymysql.MySQLError:
            return False
        return True


def _reason(error: subprocess.SubprocessError) -> str:
    """Return how a program failed, without its command line."""
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    return f"not done within {START_SECONDS:.0f} s"


def _copy_data(source: Path, target: Path) -> None:
    """Copy a data directory without auto.cnf, the server's UUID."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("auto.cnf"))


def _save_template(data: Path, template: Path) -> None:
    """Save a copy of the data as the template, atomically, unless another process was faster."""
    copy = template.with_name(f"{template.name}-{os.getpid()}-{secrets.token_hex(4)}")
    _copy_data(data, copy)
    try:
        copy.rename(template)
    except OSError:
        shutil.rmtree(copy)
        if not template.exists():
            raise


def _is_listening(path: str) -> bool:
    """Return whether a process listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _new_folder() -> Path:
    """Return the path of a new folder, short enough for the path of a socket in it."""
    name = f"{FOLDER_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    folder = Path(tempfile.gettempdir()).resolve() / name
    fits = len(os.fsencode(folder / SOCKET)) <= SOCKET_PATH_LIMIT
    return folder if fits else Path("/tmp").resolve() / name  # noqa: S108


def free_port() -> int:
    """Choose a free port on 127.0.0.1, which the kernel gives to no client meanwhile."""
    for port in random.sample(PORTS, k=200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError(f"no free port on 127.0.0.1 from {PORTS.start} to {PORTS.stop}")
