"""Contradictions between keys, found in the data of a file as written.

They are checked independently of the types, so that one invalid key does not hide them.
"""

from collections.abc import Iterator
from typing import Any

from agent.config.base_model import KeyPath

PASSWORD_SOURCES = ("password_file", "password_env", "defaults_file")
STATUS_IS_OFF = "status cannot be switched off: everything else depends on it"


def contradictions(data: dict[Any, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield each contradiction with its key path; data of any shape and types is accepted."""
    targets = data.get("targets")
    if isinstance(targets, list):
        if not targets:
            yield ("targets",), "must name at least one server"
        yield from _duplicate_names(targets)
        for index, target in enumerate(targets):
            if isinstance(target, dict):
                for key, text in _target_contradictions(target):
                    yield ("targets", index, *key), text
    if _is_status_off(data):
        yield ("collectors", "status", "enabled"), STATUS_IS_OFF


def _duplicate_names(targets: list[Any]) -> Iterator[tuple[KeyPath, str]]:
    first: dict[object, int] = {}
    for index, target in enumerate(targets):
        name = target.get("name") if isinstance(target, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            text = f"the name {name!r} is taken by targets[{first[name]}]; choose another"
            yield ("targets", index, "name"), text
        first.setdefault(name, index)


def _target_contradictions(target: dict[Any, Any]) -> Iterator[tuple[KeyPath, str]]:
    sources = [name for name in PASSWORD_SOURCES if target.get(name) is not None]
    if "password" in target:
        use = ", ".join(PASSWORD_SOURCES)
        yield ("password",), f"a password does not belong in this file; use one of {use}"
    if len(sources) > 1:
        yield (sources[1],), f"a password source, {sources[0]}, is already given; give only one"
    if target.get("socket") and (target.get("host") or target.get("port")):
        yield ("socket",), "give either a socket, or host and port"
    if "tls" in target and target["tls"] is None:
        yield ("tls",), "is empty; write tls: {} to require TLS, or remove the key"
    if not target.get("user") and not target.get("defaults_file"):
        yield ("user",), "missing (or give a defaults_file that names one)"
    resources = target.get("resources")
    has_vcpus = isinstance(resources, dict) and resources.get("vcpus") is not None
    if has_vcpus and target.get("node_exporter") is not None:
        yield (
            ("resources", "vcpus"),
            "node_exporter reports the number of processors; give only one of the two",
        )
    if _is_status_off(target):
        yield ("collectors", "status", "enabled"), STATUS_IS_OFF


def _is_status_off(section: dict[Any, Any]) -> bool:
    collectors = section.get("collectors")
    status = collectors.get("status") if isinstance(collectors, dict) else None
    return isinstance(status, dict) and status.get("enabled") is False
