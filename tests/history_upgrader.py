"""A process that opens a history of an earlier version, and is killed at a given statement.

`python history_upgrader.py FILE STATEMENT`: at that statement of the upgrade, counted from 1.
"""

import os
import signal
import sqlite3
import sys
from itertools import count
from pathlib import Path

from agent.history import open_database
from agent.history.schema import migrate


def main(path: Path, last: int) -> None:
    """Open it as the agent does; with fewer statements it ends by itself."""
    number = count(1)

    def before_each(statement: str) -> None:
        if next(number) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(before_each)
        migrate(connection)

    open_database.migrate = watched  # type: ignore[attr-defined]
    open_database.open_to_write(path).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
