"""Servers in namespaces of their own: another host behind a cable, another container."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers import missing, server_program

from agent.demo.server import Flavour, PrivateServer, Program

IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@dataclass(frozen=True)
class Inside(Program):
    """A server that is run by another program, in another namespace."""

    within: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """That program's words first."""
        return [*self.within, *super().command()]


@contextmanager
def server_inside(
    flavour: Flavour, templates: Path, *within: str, options: tuple[str, ...] = ()
) -> Iterator[PrivateServer]:
    """A server in another namespace."""
    found = server_program(flavour) or missing(f"{flavour} server")
    program = Inside(found.flavour, found.version, found.path, found.tree, within)
    with PrivateServer(program, template=templates / flavour, options=options) as server:
        yield server


@dataclass(frozen=True)
class RoutedHost:
    """Another host, and the router on the way to it, which can drop what it should pass on.

    A `blackhole` route discards what is forwarded without a word, as the target DROP of iptables
    does: who sent it gets no error, nobody an ICMP message. (To a local sender it is an error,
    hence the router.)
    """

    host: str
    router: str
    ours: str
    theirs: str

    def drop(self) -> None:
        """Let no packet through, in neither direction."""
        for address in (self.ours, self.theirs):
            _run(f"ip -n {self.router} route add blackhole {address}/32")

    def let_pass(self) -> None:
        """Let them through again."""
        for address in (self.ours, self.theirs):
            _run(f"ip -n {self.router} route del blackhole {address}/32")

    def complaints(self) -> int:
        """How many ICMP messages the router has sent."""
        shown = _run(f"ip netns exec {self.router} cat /proc/net/snmp")
        names, values = (row.split()[1:] for row in shown.splitlines() if row.startswith("Icmp:"))
        return int(dict(zip(names, values, strict=True))["OutMsgs"])


@contextmanager
def routed_host() -> Iterator[RoutedHost]:
    """A network namespace behind another one that routes."""
    name, subnet = f"hr-{os.getpid()}", f"10.214.{os.getpid() % 256}"
    router, host = f"{name}r", f"{name}h"
    try:
        for command in (
            f"ip netns add {router}",
            f"ip netns add {host}",
            f"ip link add {name}a type veth peer name {name}b netns {router}",
            f"ip -n {router} link add {name}c type veth peer name {name}d netns {host}",
            f"ip addr add {subnet}.1/30 dev {name}a",
            f"ip -n {router} addr add {subnet}.2/30 dev {name}b",
            f"ip -n {router} addr add {subnet}.5/30 dev {name}c",
            f"ip -n {host} addr add {subnet}.6/30 dev {name}d",
            f"ip link set {name}a up",
            f"ip -n {router} link set {name}b up",
            f"ip -n {router} link set {name}c up",
            f"ip -n {host} link set {name}d up",
            f"ip -n {host} link set lo up",
            f"ip -n {host} route add default via {subnet}.5",
            f"ip route add {subnet}.4/30 via {subnet}.2",
        ):
            _run(command)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        subprocess.run(["ip", "netns", "exec", router, "sh", "-c", forward], check=True)
        yield RoutedHost(host, router, f"{subnet}.1", f"{subnet}.6")
    finally:
        for made in (host, router):
            subprocess.run(["ip", "netns", "del", made], check=False, capture_output=True)


def _run(command: str) -> str:
    done = subprocess.run(command.split(), check=True, capture_output=True, text=True)
    return done.stdout


@contextmanager
def other_host() -> Iterator[tuple[str, str]]:
    """A network namespace behind a cable: its name, and its address from here."""
    name, subnet = f"hr-{os.getpid()}", f"10.213.{os.getpid() % 256}"
    commands = (
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip addr add {subnet}.1/30 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add {subnet}.2/30 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} link set lo up",
    )
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True)
        yield name, f"{subnet}.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
