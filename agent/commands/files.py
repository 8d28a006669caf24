"""`mysql-headroom files`: list, print or write the files that a host needs besides the program."""

import argparse
from pathlib import Path

from agent.commands.exit_codes import FAILED, USAGE_ERROR
from agent.support.atomic_replace import replace_atomically
from agent.support.safe_output import print_error, print_line, write_output
from agent.support.shipped_files import HOST_FILES

MODE = 0o644
BY_NAME = {file.name: file for file in HOST_FILES}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    text = "list, print or write the systemd unit, grants, alerts, dashboards and examples"
    parser = subparsers.add_parser("files", help=text, description=text.capitalize() + ".")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("name", metavar="NAME", nargs="?", choices=BY_NAME, help="the file to print")
    only.add_argument("--list", action="store_true", help="list them (default)")
    only.add_argument("--write", metavar="DIR", type=Path, help="write them all into a directory")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 if done, 1 if a file cannot be read or written, 2 for a usage error."""
    if args.force and args.write is None:
        print_error("--force needs --write DIR")
        return USAGE_ERROR
    try:
        if args.name is not None:
            write_output([BY_NAME[args.name].text()])
        elif args.write is not None:
            write(args.write, replace=args.force)
        else:
            print_list()
    except OSError as error:
        print_error(_error_text(error))
        return FAILED
    return 0


def print_list() -> None:
    """Print a line for each file: its name and its purpose."""
    width = max(map(len, BY_NAME))
    for file in HOST_FILES:
        print_line(f"{file.name:{width}}  {file.purpose}")


def write(folder: Path, *, replace: bool) -> None:
    """Write all files, or none if one exists and `replace` is not set; raises OSError."""
    texts = {folder / file.name: file.text() for file in HOST_FILES}
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(None, "it is not a directory; name another", str(folder))
    for path in texts:
        if not replace and (path.exists() or path.is_symlink()):
            raise FileExistsError(None, "exists already (--force replaces it)", str(path))
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        _write_file(path, text)
        print_line(str(path))


def _write_file(path: Path, text: str) -> None:
    """Write a file, whole or not at all; a link at `path` is replaced, not followed."""
    try:
        with replace_atomically(path, MODE) as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _error_text(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
