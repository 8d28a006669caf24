"""The user that a private server runs as: our own, or for root a nameless one without rights."""

import os
import pwd
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

from agent.demo.server_installation import Program

UNASSIGNED_UIDS = range(
    61_184, 65_520
)  # user IDs of systemd's DynamicUser; distributions assign none
SEARCH_BY_OTHERS = 0o001


class Arguments(TypedDict, total=False):
    """Arguments of `subprocess.Popen` that run it as another user."""

    user: int
    group: int
    extra_groups: tuple[int, ...]


@dataclass(frozen=True)
class ServerUser:
    """A user ID, or None for our own."""

    uid: int | None

    @classmethod
    def choose(cls, folder: Path, program: Program, *, unprivileged: bool) -> Self:
        """Choose an unused user ID, if we are root and that user can reach folder and program."""
        if not unprivileged or os.geteuid() != 0:
            return cls(None)
        reachable = all(_is_open_to_others(path) for path in (folder.parent, program.path.parent))
        return cls(_free_uid() if reachable else None)

    @property
    def option(self) -> str | None:
        """The value of the server's option `--user`: "root" if it runs as root, else None."""
        return "root" if self.uid is None and os.geteuid() == 0 else None

    def arguments(self) -> Arguments:
        """Return the arguments that run a subprocess as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": ()}

    def take_ownership(self, path: Path) -> None:
        """Make this user the owner of a file, or of a folder and everything in it."""
        if self.uid is not None:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, self.uid, self.uid, follow_symlinks=False)


def _free_uid() -> int:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return random.choice(sorted(set(UNASSIGNED_UIDS) - taken - _running_uids()))  # noqa: S311 - any will do


def _running_uids() -> set[int]:
    """Return the user IDs of all processes, without those that end meanwhile."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.add(process.stat().st_uid)
    return found


def _is_open_to_others(folder: Path) -> bool:
    """Return whether all users may enter the folder and all folders above it."""
    return all(path.stat().st_mode & SEARCH_BY_OTHERS for path in (folder, *folder.parents))
