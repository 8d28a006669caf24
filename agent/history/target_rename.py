"""Keeping the rows and deploy markers of a renamed target."""

import sqlite3
from collections.abc import Collection


def adopt_old_name(
    connection: sqlite3.Connection, name: str, server: str, watched: Collection[str]
) -> str | None:
    """Give this name the rows of its server, and the markers, of an unused old name.

    Returns the old name, or None if nothing was changed: the name has rows of that server itself,
    or there is not exactly one old name.
    """
    found = connection.execute("SELECT name FROM target WHERE server = ?", (server,)).fetchall()
    names = {str(stored) for (stored,) in found}
    old_names = names - set(watched)
    if name in names or len(old_names) != 1:
        return None
    [old_name] = old_names
    connection.execute(
        "UPDATE target SET name = ? WHERE name = ? AND server = ?", (name, old_name, server)
    )
    connection.execute("UPDATE OR REPLACE marker SET target = ? WHERE target = ?", (name, old_name))
    return old_name
