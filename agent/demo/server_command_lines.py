"""The command lines of a private server: to create its data directory, and to start it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.demo.server_installation import Flavour, Program, ServerError

DATA = "data"
SOCKET = "s"  # short, as the length of its path is limited
ERROR_LOG = "error.log"

COMMON_OPTIONS = (
    "--skip-name-resolve",  # so that accounts of localhost, including root, can only use the socket
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=2",
)
MYSQL_OPTIONS = (
    "--mysqlx=OFF",
    "--secure-file-priv=NULL",
    "--loose-innodb-redo-log-capacity=32M",
)
PERFORMANCE_SCHEMA_OPTIONS: dict[Flavour, tuple[str, ...]] = {
    "mysql": (
        "--performance-schema=ON",
        "--loose-performance-schema-consumer-events-statements-cpu=ON",
        "--performance-schema-digests-size=20000",
    ),
    "mariadb": (
        "--performance-schema=ON",
        "--performance-schema-consumer-statements-digest=ON",
        "--performance-schema-instrument=statement/%=ON",
        "--performance-schema-digests-size=20000",
    ),
}
UNWRITABLE_FOLDER = "no-files"  # the only folder where MariaDB may write files; it is not writable
ONLY_LOCALHOST = b"DELETE FROM mysql.global_priv WHERE Host <> 'localhost';\n"
SCHEMA_OFF = ("--performance-schema=OFF",)
LOG_BIN_ON = ("--log-bin=bin", "--server-id=1")
LOG_BIN_OFF = ("--skip-log-bin",)


def initialise_command(program: Program, datadir: Path, user: str | None) -> list[str]:
    """Return the command that creates a data directory, with a root account without password.

    `user` is the user that a server started by root runs as.
    """
    if program.flavour == "mysql":
        return [
            *program.command(),
            "--no-defaults",
            "--initialize-insecure",
            *_tree_options(program),
            *_user_option(user),
            *MYSQL_OPTIONS,
            f"--datadir={datadir}",
        ]
    return [
        _mariadb_install_script(program),
        "--no-defaults",
        *_user_option(user),
        f"--datadir={datadir}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]


def restrict_command(program: Program, datadir: Path, user: str | None) -> list[str] | None:
    """Return the command that runs `ONLY_LOCALHOST` from standard input, or None if not needed."""
    if program.flavour == "mysql":
        return None
    where = (*_tree_options(program), *_user_option(user), f"--datadir={datadir}")
    return [*program.command(), "--no-defaults", "--bootstrap", *where]


def start_command(
    program: Program, folder: Path, port: int | None, user: str | None, options: Sequence[str]
) -> list[str]:
    """Return the command that starts the server, with all files in `folder`, on `port` if any."""
    network = (
        ("--skip-networking",) if port is None else ("--bind-address=127.0.0.1", f"--port={port}")
    )
    files = f"--secure-file-priv={folder / UNWRITABLE_FOLDER}"
    return [
        *program.command(),
        "--no-defaults",
        *_tree_options(program),
        *_user_option(user),
        *COMMON_OPTIONS,
        *(MYSQL_OPTIONS if program.flavour == "mysql" else (files,)),
        *network,
        f"--datadir={folder / DATA}",
        f"--socket={folder / SOCKET}",
        f"--pid-file={folder / 'pid'}",
        f"--log-error={folder / ERROR_LOG}",
        *options,
    ]


def feature_options(
    flavour: Flavour, *, performance_schema: bool, log_bin: bool
) -> tuple[str, ...]:
    """Return the options that turn performance_schema and the binary log on or off."""
    schema = PERFORMANCE_SCHEMA_OPTIONS[flavour] if performance_schema else SCHEMA_OFF
    return (*schema, *(LOG_BIN_ON if log_bin else LOG_BIN_OFF))


def _user_option(user: str | None) -> list[str]:
    """Return the option for the user to run as, which a server started by root requires."""
    return [] if user is None else [f"--user={user}"]


def _tree_options(program: Program) -> list[str]:
    """Return the options that lead a server in a tree to its own files."""
    if program.tree is None:
        return []
    usr = program.tree / "usr"
    share = usr / "share" / program.flavour
    return [
        f"--basedir={usr}",
        f"--plugin-dir={usr}/lib/mysql/plugin",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share}/charsets",
    ]


def _mariadb_install_script(program: Program) -> str:
    path = None if program.tree is None else str(program.tree / "usr/bin")
    for name in ("mariadb-install-db", "mysql_install_db"):
        if script := shutil.which(name, path=path):
            return script
    raise ServerError(f"{program.path} exists, but mariadb-install-db is missing")
