"""The configuration: one frozen value, checked once, every mistake listed with its place.

The file is YAML; `config.example.yaml` shows every key. Nothing here opens a connection.
"""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from agent.config.base_model import (
    Checked,
    InvalidValuesError,
    KeyPath,
    Mistake,
    Parsed,
    Section,
    given_keys,
    matching,
)
from agent.config.business_metrics import BusinessMetrics
from agent.config.class_slas import ClassSlas
from agent.config.contradictions import PASSWORD_SOURCES
from agent.config.credentials import Credentials, cause_of, client_options
from agent.config.durations import duration_in_seconds, duration_text, within_bounds
from agent.config.existing_file import ExistingFile, file_problem
from agent.config.history_settings import HistorySettings
from agent.config.node_exporter import NodeExporterSettings
from agent.config.query_class_settings import ClassSettings
from agent.config.resources import ResourceSettings
from agent.config.target_labels import TargetLabels
from collectors import COLLECTORS, CollectorSpec
from collectors.base import CollectorError
from collectors.connection import Login
from collectors.endpoint import Endpoint
from collectors.regular_file import read_whole

Duration = Annotated[float, Parsed(duration_in_seconds)]
MAX_PORT = 65535
DEFAULT_LISTEN = "127.0.0.1:10104"
LISTEN_FORM = f"must be an address and a port, such as {DEFAULT_LISTEN}, [::1]:10104 or :10104"
MIN_SLA, MAX_SLA = 1e-6, 3600.0  # seconds
MAX_WINDOW = 31 * 86400.0  # seconds of fit.window
MAX_PEM_BYTES = 2**22  # bytes; all authorities that browsers trust take 220 KiB
CLOCK_COLLECTORS = ("status", "statements")  # the collectors whose samples bound an interval
GOLDEN_RATIO = 0.6180339887498949
TLS_MODES = ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")  # of a my.cnf, the strictest last
LAX_TLS_MODES = ("DISABLED", "PREFERRED")
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}"
NAME = matching(
    NAME_PATTERN,
    "must have up to 63 letters, digits and _ . : - and begin with a letter or a digit",
)


def _check_readable(path: Path) -> Path:
    """Check that certificates or a key can be read at once; OpenSSL would wait for a pipe."""
    try:
        read_whole(path, MAX_PEM_BYTES)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    return path


def _parse_port(text: str) -> int:
    """Parse the port of a my.cnf."""
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"port: must be a whole number from 1 to {MAX_PORT}")
    return port


def _check_port(listen: str) -> str:
    if int(listen.rpartition(":")[2]) > MAX_PORT:
        raise ValueError(f"a port is at most {MAX_PORT}")
    return listen


def _check_host(host: str) -> str:
    """Check that a host is a name or an address; one with a port would be looked up as a name."""
    if host.count(":") == 1 or host.startswith("["):
        raise ValueError("must be a name or an address alone; give the port with the key port")
    if host.startswith("/"):
        raise ValueError("must be a host name or an IP address; give a file with the key socket")
    if not host or "/" in host or any(character.isspace() for character in host):
        raise ValueError("must be a host name or an IP address")
    return host


def _parse_listen(value: object) -> str:
    """Return the text; a port alone is a number in YAML."""
    if not isinstance(value, str):
        raise ValueError(LISTEN_FORM)
    return value


ListenAddress = Annotated[
    str,
    Parsed(_parse_listen),
    matching(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]*):[0-9]{1,5}", LISTEN_FORM),
    Checked(_check_port),
]


class LogSettings(Section, frozen=True):
    """The log on standard error: its level and format."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["logfmt", "json"] = "logfmt"


class CollectorSettings(Section, frozen=True):
    """Whether and how often one collector reads; None: its own default interval."""

    enabled: bool = True
    interval: Annotated[Duration, within_bounds(0.1, 60)] | None = None


class FitSettings(Section, frozen=True):
    """How samples become points, and points a fit. All durations in seconds."""

    interval: Annotated[Duration, within_bounds(1, 600)] = 15.0
    window: Annotated[Duration, within_bounds(30, MAX_WINDOW)] = 86400.0
    stale_after: Annotated[Duration, within_bounds(5, 86400)] = 300.0


class TlsSettings(Section, frozen=True):
    """TLS to the server; without this section TLS is used where the server offers it."""

    required: bool = True
    ca: Annotated[ExistingFile, Checked(_check_readable)] | None = None
    verify_identity: bool = True


def _check_collector_name(name: str) -> str:
    known = [spec.name for spec in COLLECTORS]
    if name not in known:
        raise ValueError(f"unknown collector; the collectors are {', '.join(known)}")
    return name


CollectorName = Annotated[str, Checked(_check_collector_name)]
OwnCollectorSettings = Annotated[Mapping[str, Any], given_keys(CollectorSettings)]
OwnFitSettings = Annotated[Mapping[str, Any], given_keys(FitSettings)]


class Target(Section, frozen=True):
    """One server to watch: its address, the account there, what differs from the defaults."""

    name: Annotated[str, NAME]
    host: Annotated[str, Checked(_check_host)] | None = None
    port: Annotated[int, Meta(ge=1, le=MAX_PORT)] | None = None
    socket: str | None = None
    user: str | None = None
    password_file: ExistingFile | None = None
    password_env: str | None = None
    defaults_file: ExistingFile | None = None
    tls: TlsSettings | None = None
    server_public_key: Annotated[ExistingFile, Checked(_check_readable)] | None = None
    timeout: Annotated[Duration, within_bounds(0.5, 60)] = 3.0
    collectors: Mapping[CollectorName, OwnCollectorSettings] = field(default_factory=dict)
    """The keys that differ from those for all targets."""
    fit: OwnFitSettings = field(default_factory=dict)
    """The keys that differ from those for all targets."""
    resources: ResourceSettings = ResourceSettings()
    node_exporter: NodeExporterSettings | None = None
    """The node_exporter of the server's host, if that is another machine."""
    labels: TargetLabels = field(default_factory=dict)
    """Labels of its `target_info`, to join its series with those of other exporters."""
    group: Annotated[str, NAME] | None = None
    """The group of servers that share a load: shards, a primary and its replicas."""
    sla_seconds: Annotated[Duration, within_bounds(MIN_SLA, MAX_SLA)] | None = None
    """The agreed mean residence time of a statement."""
    class_slas: ClassSlas = ()
    """How long a share of a query class's statements may take."""
    business_metrics: BusinessMetrics = ()
    """Business metrics, in whose units the headroom is exported."""

    @property
    def credentials(self) -> Credentials:
        """The sources of the account, to be read at every connect."""
        return Credentials(self.user, self.password_file, self.password_env, self.defaults_file)

    @property
    def endpoint(self) -> Endpoint:
        """The address; what this file does not set comes from the my.cnf, else from the defaults.

        Raises ValueError or OSError where the my.cnf cannot be used; neither shows a value of it.
        """
        options = client_options(self.defaults_file) if self.defaults_file else {}
        address_options = {} if self.host or self.port or self.socket else options
        ca = str(self.tls.ca) if self.tls and self.tls.ca else options.get("ssl-ca")
        mode = options.get("ssl-mode", "").upper()
        if mode and mode not in (*LAX_TLS_MODES, *TLS_MODES):
            modes = f"{', '.join(LAX_TLS_MODES)}, {', '.join(TLS_MODES[:-1])} or {TLS_MODES[-1]}"
            raise ValueError(f"ssl-mode: must be {modes}")
        if mode in TLS_MODES[1:] and not ca and not self.tls:
            raise ValueError("ssl-mode: needs an ssl-ca to verify the server, and none is given")
        return Endpoint(
            host=self.host or address_options.get("host") or "127.0.0.1",
            port=self.port or _parse_port(address_options.get("port", "3306")),
            socket=self.socket or address_options.get("socket"),
            tls_ca=ca,
            tls_verify_identity=self.tls.verify_identity if self.tls else mode == TLS_MODES[2],
            tls_required=self.tls.required if self.tls else bool(ca) or mode in TLS_MODES,
            public_key=self._public_key(options),
        )

    def _public_key(self, options: Mapping[str, str]) -> str | None:
        named = self.server_public_key or options.get("server-public-key-path")
        return str(named) if named else None

    def __post_init__(self) -> None:
        """Raise ValueError where the account's sources and the my.cnf cannot be used."""
        try:
            endpoint, login = self.endpoint, self.credentials.login()
        except (CollectorError, OSError, ValueError) as error:
            source = f"{self.defaults_file}: " if self.defaults_file else ""
            why = str(error) if isinstance(error, CollectorError) else cause_of(error)
            given = (key for key in PASSWORD_SOURCES if getattr(self, key) is not None)
            place = next(given, "user")
            raise InvalidValuesError([((place,), source + why.removeprefix(source))]) from None
        if self.defaults_file:
            mistakes = list(self._my_cnf_mistakes(endpoint, login))
            if mistakes:
                raise InvalidValuesError(
                    [(("defaults_file",), f"{self.defaults_file}: {text}") for text in mistakes]
                )

    @staticmethod
    def _my_cnf_mistakes(endpoint: Endpoint, login: Login) -> Iterator[str]:
        if not login.user:
            yield "has no user in its group [client]"
        for option, path in (
            ("ssl-ca", endpoint.tls_ca),
            ("server-public-key-path", endpoint.public_key),
        ):
            if path and (problem := file_problem(Path(path))):
                yield f"{option}: {problem}"
            elif path:
                try:
                    _check_readable(Path(path))
                except ValueError as error:
                    yield f"{option}: {path}: {error}"


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration file."""

    listen: ListenAddress = DEFAULT_LISTEN
    log: LogSettings = LogSettings()
    collectors: Mapping[CollectorName, CollectorSettings] = field(default_factory=dict)
    fit: FitSettings = FitSettings()
    resources: ResourceSettings = ResourceSettings()
    history: HistorySettings = HistorySettings()
    classes: ClassSettings = ClassSettings()
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        """Raise `InvalidValuesError` where settings of several sections contradict each other."""
        mistakes = [
            *self._sampling_mistakes(),
            *self._group_mistakes(),
            *self._retention_mistakes(),
        ]
        if mistakes:
            raise InvalidValuesError(mistakes)

    def _sampling_mistakes(self) -> Iterator[Mistake]:
        """Yield each key that leaves an interval without two samples, for its first target."""
        found: dict[KeyPath, str] = {}
        for index, target in enumerate(self.targets):
            width = self.fit_settings(target).interval
            for spec in COLLECTORS:
                settings = self.collector_settings(target, spec.name)
                sampling = self.sampling_interval(target, spec)
                if spec.name in CLOCK_COLLECTORS and settings.enabled and width < 2 * sampling:
                    found.setdefault(
                        self._key_of_interval(index, spec.name),
                        f"target {target.name!r}: fit.interval ({duration_text(width)}) must be at"
                        f" least twice the sampling interval of {spec.name}"
                        f" ({duration_text(sampling)})",
                    )
        yield from found.items()

    def _key_of_interval(self, index: int, collector: str) -> KeyPath:
        """Return the key that sets a collector's interval, else that of the target's fit."""
        own = ("targets", index)
        shared = self.collectors.get(collector, CollectorSettings())
        if self.targets[index].collectors.get(collector, {}).get("interval") is not None:
            return (*own, "collectors", collector, "interval")
        if shared.interval is not None:
            return ("collectors", collector, "interval")
        section = (*own, "fit") if "interval" in self.targets[index].fit else ("fit",)
        return (*section, "interval")

    def _group_mistakes(self) -> Iterator[Mistake]:
        widths: dict[str, float] = {}
        for index, target in enumerate(self.targets):
            width = self.fit_settings(target).interval
            if target.group is None or widths.setdefault(target.group, width) == width:
                continue
            yield (
                ("targets", index, "fit", "interval"),
                f"{duration_text(width)}, but the first target of the group {target.group!r} has"
                f" {duration_text(widths[target.group])}; give all of them the same",
            )

    def _retention_mistakes(self) -> Iterator[Mistake]:
        longest = max((self.fit_settings(target).window for target in self.targets), default=0.0)
        kept = self.history.retention.intervals
        if kept < longest:
            yield (
                ("history", "retention", "intervals"),
                f"must be at least fit.window ({duration_text(longest)}), not"
                f" {duration_text(kept)}",
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the web pages; an empty host is every interface."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def groups(self) -> dict[str, list[Target]]:
        """The targets of each group, in the order of the file."""
        found: dict[str, list[Target]] = {}
        for target in self.targets:
            if target.group is not None:
                found.setdefault(target.group, []).append(target)
        return found

    def fit_settings(self, target: Target) -> FitSettings:
        """Return the file's settings, overridden key by key by the target's own."""
        return replace(self.fit, **target.fit)

    def resource_settings(self, target: Target) -> ResourceSettings:
        """Return the file's settings, overridden resource by resource by the target's own.

        With a node_exporter, which reports the processors of its host, `vcpus` is None.
        """
        settings = target.resources.merged_over(self.resources)
        return replace(settings, vcpus=None) if target.node_exporter else settings

    def sampling_interval(self, target: Target, spec: CollectorSpec) -> float:
        """Return the seconds between two samples of a collector, as configured or by default."""
        chosen = self.collector_settings(target, spec.name).interval
        width = self.fit_settings(target).interval
        if spec.name == "digests":
            width = min(width, self.classes.interval)
        return chosen or spec.interval_for_width(width)

    def phase(self, target: Target) -> float:
        """Return how many seconds after multiples of `fit.interval` the target's intervals begin.

        Targets are staggered, so that not all are read at once; those of a group are read together.
        The golden ratio spreads any number of them evenly. A group's turn follows from its name,
        so that it is the same for targets that join it while the others are watched.
        """
        if target.group is not None:
            turn = zlib.crc32(target.group.encode()) / 2**32
        else:
            turn = GOLDEN_RATIO * [one.name for one in self.targets].index(target.name) % 1.0
        return self.fit_settings(target).interval * turn

    def collector_settings(self, target: Target, name: str) -> CollectorSettings:
        """Return the file's settings of a collector, overridden key by key by the target's own."""
        settings = self.collectors.get(name, CollectorSettings())
        return replace(settings, **target.collectors.get(name, {}))
