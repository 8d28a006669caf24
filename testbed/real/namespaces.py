"""Servers in their own namespaces: another host behind a cable, another container."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.demo.private_server import Flavour, PrivateServer, Program
from testbed.real.server_programs import missing, server_program

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000  # of sched.h
MAKE_DEVICES = r"""
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 dev/tty c 5 0
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
"""
IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@dataclass(frozen=True)
class NamespacedProgram(Program):
    """A server program that another program starts in another namespace."""

    within: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return that program's words first."""
        return [*self.within, *super().command()]


@contextmanager
def server_inside(
    flavour: Flavour, templates: Path, *within: str, options: tuple[str, ...] = ()
) -> Iterator[PrivateServer]:
    """Return a server to run in another namespace."""
    found = server_program(flavour) or missing(f"{flavour} server")
    program = NamespacedProgram(found.flavour, found.version, found.path, found.tree, within)
    with PrivateServer(program, template=templates / flavour, options=options) as server:
        yield server


@dataclass(frozen=True)
class RoutedHost:
    """Another host, and the router on the way to it, which can drop packets.

    A `blackhole` route discards what is forwarded without a word, as the target DROP of iptables
    does: who sent it gets no error, nobody an ICMP message. (To a local sender it is an error,
    hence the router.)
    """

    host: str
    router: str
    ours: str
    theirs: str

    def drop(self) -> None:
        """Drop all packets, in both directions."""
        for address in (self.ours, self.theirs):
            _run(f"ip -n {self.router} route add blackhole {address}/32")

    def let_pass(self) -> None:
        """Forward packets again."""
        for address in (self.ours, self.theirs):
            _run(f"ip -n {self.router} route del blackhole {address}/32")

    def complaints(self) -> int:
        """Return how many ICMP messages the router has sent."""
        shown = _run(f"ip netns exec {self.router} cat /proc/net/snmp")
        names, values = (row.split()[1:] for row in shown.splitlines() if row.startswith("Icmp:"))
        return int(dict(zip(names, values, strict=True))["OutMsgs"])


@contextmanager
def routed_host() -> Iterator[RoutedHost]:
    """Create a network namespace behind another one that routes."""
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


@dataclass(frozen=True)
class OtherHost:
    """Another host at the end of a cable: its name, our end of the cable, both addresses."""

    name: str
    interface: str
    ours: str
    theirs: str

    def enter(self) -> None:
        """Move this thread, and no other, into it; a socket stays where it was opened."""
        with Path(f"/run/netns/{self.name}").open() as namespace:
            if LIBC.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.name}")


@contextmanager
def other_host() -> Iterator[OtherHost]:
    """Create a network namespace behind a virtual cable."""
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
            _run(command)
        yield OtherHost(name, f"{name}a", f"{subnet}.1", f"{subnet}.2")
    finally:
        for gone in (f"ip link del {name}a", f"ip netns del {name}"):
            subprocess.run(gone.split(), check=False, capture_output=True)


@contextmanager
def slow_cable(rate: str) -> Iterator[OtherHost]:
    """Create another host, to which the link has that rate, in the words of tc(8)."""
    with other_host() as there:
        try:
            add = f"tc qdisc add dev {there.interface} root"
            _run(f"{add} tbf rate {rate} burst 32kb latency 400ms")
        except (OSError, subprocess.CalledProcessError) as error:
            missing("tc that limits a link", str(error))
        yield there
