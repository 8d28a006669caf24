"""The user that a private server runs as: ourselves, or for root one with no rights and no name."""

import os
import pwd
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

from agent.demo.programs import Program

NAMELESS = range(
    61_184, 65_520
)  # what systemd's DynamicUser takes too, and no distribution gives out
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
    def of(cls, folder: Path, program: Program, *, unprivileged: bool) -> Self:
        """Choose an unused one, if we are root and it can reach its folder and program."""
        if not unprivileged or os.geteuid() != 0:
            return cls(None)
        reachable = all(_open_to_others(path) for path in (folder.parent, program.path.parent))
        return cls(_free_uid() if reachable else None)

    @property
    def option(self) -> str | None:
        """The value of a server's option `--user`: "root" where it is that, else None."""
        return "root" if self.uid is None and os.geteuid() == 0 else None

    def arguments(self) -> Arguments:
        """The arguments that run a subprocess as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": ()}

    def own(self, path: Path) -> None:
        """Give it a file or folder, with all that is in there."""
        if self.uid is not None:
            for one in (path, *path.rglob("*")):
                os.chown(one, self.uid, self.uid, follow_symlinks=False)


def _free_uid() -> int:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return random.choice(sorted(set(NAMELESS) - taken - _running_uids()))  # noqa: S311 - any will do


def _running_uids() -> set[int]:
    """The users of all processes; one that ends meanwhile is left out."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.add(process.stat().st_uid)
    return found


def _open_to_others(folder: Path) -> bool:
    """Return whether all users may enter it and all folders above it."""
    return all(path.stat().st_mode & SEARCH_BY_OTHERS for path in (folder, *folder.parents))
