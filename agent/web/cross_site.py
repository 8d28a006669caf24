"""Cross-site requests and DNS rebinding: requests that another site's page made a browser send.

A page of another site may send a POST to any address that its reader's browser reaches, and by DNS
rebinding its own host name can lead here. Browsers mark both:
https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

SAFE_METHODS = ("GET", "HEAD")
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{0,5})?", re.ASCII)


def is_sent_by_page(environ: Mapping[str, Any]) -> bool:
    """Return whether a browser sends the request for a page; the agent's own page sends none."""
    site = environ.get("HTTP_SEC_FETCH_SITE", "none")
    return "HTTP_ORIGIN" in environ or site.strip().lower() != "none"


class HostNames:
    """The host names that requests may use: addresses, this machine's names, those `listed`."""

    def __init__(self, listed: Iterable[str] = (), listen: str = "") -> None:
        listed = tuple(listed)
        own = socket.gethostname().lower()
        names = {"localhost", own, own.partition(".")[0], listen, *listed}
        self._names = {_canonical(name) for name in names if name}
        self.is_strict = bool(listed)

    def includes_host_of(self, environ: Mapping[str, Any]) -> bool:
        """Return whether the Host header, if there is one, has such a name."""
        header = environ.get("HTTP_HOST")
        if header is None:  # not a browser
            return True
        found = HOST.fullmatch(header.strip())
        return found is not None and (_is_address(found[1]) or _canonical(found[1]) in self._names)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _canonical(name: str) -> str:
    return name.lower().rstrip(".")
