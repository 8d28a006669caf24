"""The identity of a server, and a limit on how many servers one target may be."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping

UNIQUE = re.compile(r"[0-9A-Za-z-]{1,64}")
"""A UUID of MySQL; any other value is not used."""
MAX_LENGTH = 200  # characters of an identity made of host, port and data directory
MAX_NEW_SERVERS, NEW_SERVER_SECONDS = 20, 86_400.0  # servers, within these seconds
REMEMBERED_SERVERS = 200


def server_uuid(variables: Mapping[str, str]) -> str:
    """Return MySQL's UUID; empty if there is none, or if it is not a valid one."""
    found = variables.get("server_uuid", "")
    return found if UNIQUE.fullmatch(found) else ""


def server_identity(variables: Mapping[str, str]) -> str:
    """Identify a server, whatever its address: by its UUID, else by host, port and folder.

    MariaDB's server_uid is a hash of its port and of a network card, which containers on different
    hosts share.
    """
    if uuid := server_uuid(variables):
        return uuid
    location = ":".join(variables.get(name, "") for name in ("hostname", "port", "datadir"))
    if len(location) <= MAX_LENGTH:
        return location
    return hashlib.sha256(location.encode(errors="surrogatepass")).hexdigest()


class Identities:
    """The servers that a target has been, limited in number.

    After a fail-over the target is another server. One with a new identity at each connect would
    fill the history with servers that never return, and push out the rows of the other targets.
    """

    def __init__(self) -> None:
        self._first_seen: OrderedDict[str, float] = OrderedDict()

    def admits(self, server: str, now: float) -> bool:
        """Return whether the server is known or could be added; `now` in monotonic seconds."""
        if server in self._first_seen:
            return True
        recent = sum(now - at < NEW_SERVER_SECONDS for at in self._first_seen.values())
        if recent >= MAX_NEW_SERVERS:
            return False
        self._first_seen[server] = now
        while len(self._first_seen) > REMEMBERED_SERVERS:
            self._first_seen.popitem(last=False)
        return True
