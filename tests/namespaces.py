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
