"""A renamed target keeps its rows."""

import sqlite3
from collections.abc import Collection


def take_along(
    connection: sqlite3.Connection, name: str, server: str, watched: Collection[str]
) -> str | None:
    """Give that name the rows of its server that another name has, if no target has that name now.

    Answers the name before. Nothing is taken where the name has rows of that server itself, or
    where it could be more than one name.
    """
    found = connection.execute("SELECT name FROM target WHERE server = ?", (server,)).fetchall()
    names = {str(other) for (other,) in found}
    before = names - set(watched)
    if name in names or len(before) != 1:
        return None
    [other] = before
    connection.execute(
        "UPDATE target SET name = ? WHERE name = ? AND server = ?", (name, other, server)
    )
    return other
