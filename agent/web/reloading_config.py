"""The web configuration in force: reloaded when one of its files changes, kept if invalid."""

import logging
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from agent.config.systemd_credentials import readable_path
from agent.config.yaml_loader import ConfigError, read_yaml
from agent.support.logs import fields
from agent.web.config import WebConfig
from agent.web.config_contradictions import mistakes
from agent.web.tls import tls_context

log = logging.getLogger(__name__)

EXAMPLE = "`mysql-headroom files web-config.yml`"
RETRY_SECONDS = 5.0  # seconds; a missing file may appear while no other changes
MAX_SESSIONS = 512  # TLS 1.2 sessions, about 10 KiB each, in a context before it is replaced

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class LoadedWebConfig:
    """A web configuration ready for use, and the files that it was read from."""

    config: WebConfig = field(default_factory=WebConfig)
    context: ssl.SSLContext | None = None
    files: tuple[Path, ...] = ()

    @property
    def protections(self) -> set[str]:
        """The access restrictions that are configured."""
        tls = self.config.tls_server_config
        verifies = self.context is not None and self.context.verify_mode is ssl.CERT_REQUIRED
        found = {
            "TLS": tls is not None,
            "client certificates": verifies,
            "client names": tls is not None and tls.client_allowed_sans is not None,
            "users": bool(self.config.basic_auth_users),
        }
        return {name for name, is_configured in found.items() if is_configured}


def load_web_config(path: Path) -> LoadedWebConfig:
    """Read and check the file; raises `ConfigError` with all its mistakes."""
    document = read_yaml(path, EXAMPLE)
    folder = path.parent
    config = document.checked(WebConfig, mistakes(document.data, folder))
    tls = config.tls_server_config
    if tls is None:
        return LoadedWebConfig(config, None, (path,))
    names = (tls.cert_file, tls.key_file, tls.client_ca_file)
    files = tuple(readable_path(folder / name) for name in names if name is not None)
    try:
        return LoadedWebConfig(config, tls_context(tls, folder), (path, *files))
    except OSError as error:
        text = f"is refused by OpenSSL: {error.strerror}"
        raise document.error_for([(("tls_server_config",), text)]) from None


class WebConfigFile:
    """A web configuration file; a call returns the configuration in force. Thread-safe.

    `failures` counts the versions that could not be used, and `broken` is whether the latest
    could not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen_signature: Signature | None = None
        self._retry_at = 0.0
        self._problems: list[str] = []
        self._web = load_web_config(path)
        self.failures = 0

    @property
    def broken(self) -> bool:
        """Whether the present files cannot be used."""
        return bool(self._problems)

    def __call__(self) -> LoadedWebConfig:
        """Return the configuration of the files or, if invalid, of their last valid state."""
        if self._has_changed() and self._lock.acquire(blocking=False):
            try:
                self._reload()
            finally:
                self._lock.release()
        return self._web

    def _has_changed(self) -> bool:
        if _signature(self._web.files) != self._seen_signature:
            return True
        is_due = bool(self._problems) or _session_count(self._web.context) > MAX_SESSIONS
        return is_due and time.monotonic() >= self._retry_at

    def _reload(self) -> None:
        files = self._web.files
        before = _signature(files)  # a file that changes while it is read is read again
        self._retry_at = time.monotonic() + RETRY_SECONDS
        try:
            web = load_web_config(self._path)
            if removed := sorted(self._web.protections - web.protections):
                problem = f"removes {', '.join(removed)}, which needs a restart"
                raise ConfigError([f"{self._path}: {problem}"])
        except ConfigError as error:
            self._seen_signature = before
            self._reject(error.problems)
            return
        is_change = bool(self._problems) or self._seen_signature not in (None, before)
        self._seen_signature = before if web.files == files else None
        self._web, self._problems = web, []
        if is_change:
            log.info("web configuration reloaded", extra=fields(file=self._path))

    def _reject(self, problems: list[str]) -> None:
        """Keep the previous configuration; log each new broken state once."""
        if problems == self._problems:
            return
        self._problems = problems
        self.failures += 1
        for problem in problems:
            log.error("web configuration refused, the previous one stays in force: %s", problem)


def _session_count(context: ssl.SSLContext | None) -> int:
    return 0 if context is None else context.session_stats()["number"]


def _signature(files: tuple[Path, ...]) -> Signature:
    return tuple(_file_stamp(path) for path in files)


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size
