"""The servers in a Prometheus that a selector finds, by the labels that name them, and their hosts.

A server is named by its `instance`, or by other labels, as in PMM by `service_name`; its host by
`instance`, and by those of these labels that it shares with the server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.prometheus.client import Client, Labels
from agent.prometheus.exporters import (
    IDLE_MODE,
    QUESTIONS,
    Utilisation,
    matcher,
    selector,
    without_braces,
)
from collectors.node_exporter import CPU

INSTANCE = "instance"
MAX_NAMED = 10
"""Servers or hosts that are named in one message."""
IdentifyingLabels = tuple[tuple[str, str], ...]
"""Labels and their values, which distinguish a server or host from the others."""


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Selects servers, and the hosts that belong to them; times in Unix seconds."""

    start: float
    end: float
    selector: str = ""
    by: tuple[str, ...] = (INSTANCE,)
    """The labels that name a server."""
    host_selector: str | None = ""
    """Selector of node_exporter's series; None: hosts are left out."""
    join: str | None = None
    """The label whose value a server and its host share; None: the host in `instance`."""
    service: Utilisation | None = None
    """The source of the CPU of a managed service's instances; None: node_exporter."""
    vcpus: float = 2.0
    """The number of processors of such an instance."""

    @property
    def host_label(self) -> str:
        """The label that names a host."""
        return self.service.identifier if self.service else INSTANCE

    def identity(self, labels: Labels) -> IdentifyingLabels:
        """Return the labels that name a server."""
        return tuple((label, labels.get(label, "")) for label in self.by)

    def join_key(self, labels: Labels) -> str:
        """Return what a server shares with its host; an instance's name begins the host's."""
        if self.join:
            return labels.get(self.join, "")
        host = host_of(labels.get(INSTANCE, ""))
        return host.partition(".")[0] if self.service else host


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """One server: the labels that name it, its instances, and the hosts that match."""

    identity: IdentifyingLabels
    instances: tuple[str, ...] = ()
    hosts: tuple[IdentifyingLabels, ...] = ()

    @property
    def name(self) -> str:
        """Its name: the values of the labels that identify it."""
        return identity_text(self.identity)

    @property
    def host(self) -> IdentifyingLabels | None:
        """Its host; None if several match, as none can be chosen."""
        return self.hosts[0] if len(self.hosts) == 1 else None


def identity_text(identity: IdentifyingLabels) -> str:
    """Return the name of a server or host; a label that it does not have is left out."""
    return "/".join(value for _, value in identity if value)


def find_targets(client: Client, query: FleetQuery) -> list[FleetTarget]:
    """Return the servers of the selector, in the order of their names."""
    servers: dict[IdentifyingLabels, list[Labels]] = {}
    wanted = selector(QUESTIONS, without_braces(query.selector))
    for labels in client.series(wanted, query.start, query.end):
        identity = query.identity(labels)
        if identity_text(identity):
            servers.setdefault(identity, []).append(labels)
    hosts = _hosts_by_key(client, query)
    return [
        FleetTarget(
            identity,
            tuple(sorted({labels.get(INSTANCE, "") for labels in known})),
            _hosts_of(query, identity, {query.join_key(labels) for labels in known}, hosts),
        )
        for identity, known in sorted(servers.items(), key=lambda one: identity_text(one[0]))
    ]


def missing_hosts(targets: Sequence[FleetTarget], query: FleetQuery) -> Iterator[str]:
    """Yield a line for each server of which several hosts match, and one for those without any."""
    if query.host_selector is None:
        return
    for target in targets:
        if len(target.hosts) > 1:
            problem = f"several hosts match: {names_text(list(map(identity_text, target.hosts)))}"
            yield f"{target.name}: {problem}; choose one with --host-selector"
    if alone := [target.name for target in targets if not target.hosts]:
        some = f"{len(alone)} of {len(targets)} servers" if len(targets) > 1 else "this server"
        remedy = "match hosts with --join LABEL, or leave all hosts out with --no-hosts"
        problem = f"no host matches {some}, whose CPU is therefore not known"
        yield f"{names_text(alone)}: {problem}; {remedy}"


def names_text(names: Sequence[str]) -> str:
    """Return the names, of many the first ones."""
    return ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")


def _hosts_of(
    query: FleetQuery,
    server: IdentifyingLabels,
    keys: set[str],
    hosts: dict[str, set[IdentifyingLabels]],
) -> tuple[IdentifyingLabels, ...]:
    """Return the hosts that share a key with a server, and those of its labels that they have.

    If none does the latter, those that share the label that is asked for: it is enough where an
    exporter of hosts is a pod of its own.
    """
    found = set[IdentifyingLabels]().union(*(hosts.get(key, ()) for key in keys))
    own = dict(server)
    alike = {host for host in found if all(own[name] == value for name, value in host[1:])}
    return tuple(sorted(alike or {host[:1] for host in found if query.join}))


def _hosts_by_key(client: Client, query: FleetQuery) -> dict[str, set[IdentifyingLabels]]:
    """Return the hosts by what they share with their server: the name, and labels of servers."""
    hosts: dict[str, set[IdentifyingLabels]] = {}
    if query.host_selector is None:
        return hosts
    service, chosen = query.service, without_braces(query.host_selector)
    if service is None:
        wanted = selector(CPU, IDLE_MODE, 'cpu="0"', chosen)
    else:
        wanted = selector(service.metric, *service.matchers, chosen)
    of_servers = [label for label in query.by if label not in (INSTANCE, query.host_label)]
    for labels in client.series(wanted, query.start, query.end):
        name = labels.get(query.host_label, "")
        key = name if service and not query.join else query.join_key(labels)
        shared = ((label, labels[label]) for label in of_servers if label in labels)
        if key:  # without one it matches no server
            hosts.setdefault(key, set()).add(((query.host_label, name), *shared))
    return hosts


def host_of(instance: str) -> str:
    """Return the host of `HOST:PORT`, or the whole if there is no port; IPv6 without brackets."""
    host, _, port = instance.rpartition(":")
    has_port = host and port.isdigit() and (":" not in host or host.endswith("]"))
    return (host if has_port else instance).strip("[]")


def identity_matchers(identity: IdentifyingLabels) -> Iterator[str]:
    """Yield the matchers of the labels that name a server or host."""
    yield from (matcher(label, value) for label, value in identity)
