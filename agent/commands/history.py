"""`mysql-headroom history`: show, export, import and prune the history file."""

import argparse
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent.commands.argument_types import timestamp
from agent.commands.config_file_options import configured_history
from agent.commands.exit_codes import USAGE_ERROR
from agent.commands.history_contents import extent_lines
from agent.config.loader import load_config
from agent.config.timestamps import local_zone_text
from agent.csv_input.table_file import STANDARD_INPUT, TableFileError, unwritable_file_error
from agent.history import history_file, prune
from agent.history.failures import as_store_error
from agent.history.open_database import open_to_read, open_to_write
from agent.history.row_access import (
    MAX_TIME,
    RowFilter,
    extents,
    insert_rows,
    select_rows,
    target_names,
)
from agent.history.row_kinds import INTERVALS, KINDS, TEXT_KINDS, Row, RowKind
from agent.history.text.csv_format import as_csv
from agent.history.text.import_file import open_rereadable
from agent.history.text.line_errors import Mistakes
from agent.history.text.openmetrics_format import as_openmetrics
from agent.support.errors import InputError
from agent.support.safe_output import print_error, print_lines, write_output

ALL = "all"


class UnknownTargetError(InputError):
    """The history has no such target; the message names those that it has."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command and its actions."""
    text = "show, export, import and prune the agent's history"
    parser = subparsers.add_parser("history", help=text, description=text.capitalize() + ".")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    _add_action(
        actions, "show", show, "print the targets, with the time range and number of rows of each"
    )
    export_parser = _add_action(
        actions, "export", export, "write rows as text; a running agent does not notice"
    )
    export_parser.add_argument(
        "--format", choices=["csv", "openmetrics"], default="csv", help="default: csv"
    )
    _add_kind(export_parser, [*TEXT_KINDS, ALL], INTERVALS.name)
    when = f"2026-11-21T13:00 ({local_zone_text()}), or 6h (ago)"
    export_parser.add_argument("--since", metavar="TIME", type=timestamp, help=when)
    export_parser.add_argument("--until", metavar="TIME", type=timestamp, help="likewise")
    export_parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        type=Path,
        help="the file to write (default: standard output)",
    )
    import_parser = _add_action(
        actions, "import", import_, "add exported rows; existing rows stay as they are"
    )
    import_parser.add_argument(
        "input", metavar="INPUT", help="CSV or OpenMetrics; - is standard input"
    )
    prune_parser = _add_action(
        actions, "prune", prune_, "delete older rows and free their disk space"
    )
    prune_parser.add_argument("--before", metavar="TIME", type=timestamp, required=True, help=when)
    _add_kind(prune_parser, [*KINDS, ALL], ALL)
    for action in (export_parser, prune_parser):
        action.add_argument("--target", metavar="NAME", help="only this target")


def show(args: argparse.Namespace, path: Path) -> int:
    """Print the contents of the history."""
    del args
    with closing(open_to_read(path)) as connection:
        found = [extent for kind in KINDS.values() for extent in extents(connection, kind)]
    print_lines("\n".join(extent_lines(path, history_file.size_on_disk(path), found)))
    return 0


def export(args: argparse.Namespace, path: Path) -> int:
    """Write rows as text."""
    since = 0 if args.since is None else round(1000 * args.since)
    until = MAX_TIME if args.until is None else round(1000 * args.until)
    if since > until:
        print_error("--since is later than --until: nothing lies between")
        return USAGE_ERROR
    choice = RowFilter(args.target, None, since, until)
    kinds = [kind for kind in TEXT_KINDS.values() if args.kind in (kind.name, ALL)]
    if args.format == "csv" and len(kinds) > 1:
        print_error("a CSV file can hold one --kind only; --format openmetrics takes all")
        return USAGE_ERROR
    with closing(open_to_read(path)) as connection:
        _require_target(connection, args.target)

        def rows(kind: RowKind) -> Iterable[Row]:
            return select_rows(connection, kind, choice)

        is_table = args.format == "csv"
        lines = as_csv(kinds[0], rows(kinds[0])) if is_table else as_openmetrics(kinds, rows)
        _write(lines, args.output)
    return 0


def import_(args: argparse.Namespace, path: Path) -> int:
    """Add the rows of a file, all or none: it is checked as a whole before the history changes."""
    with open_rereadable(args.input) as source:
        mistakes = Mistakes(source.name)
        for _ in source.rows(mistakes):
            pass
        if mistakes.problems:
            return _report_mistakes(mistakes)
        done: dict[str, Counter[str]] = {}
        with closing(open_to_write(path)) as connection, _transaction(connection):
            for kind, rows in source.batches(mistakes):
                counts = done.setdefault(kind.name, Counter())
                counts.update(added=insert_rows(connection, kind, rows), given=len(rows))
            if mistakes.problems:  # the file has changed meanwhile
                raise TableFileError(
                    source.name, None, "it was changed during the import", "import it again"
                )
    for name, counts in done.items():
        were_there = counts["given"] - counts["added"]
        print_lines(f"{name}: {counts['added']:,} added, {were_there:,} existed already")
    return 0


def _report_mistakes(mistakes: Mistakes) -> int:
    for problem in mistakes.problems:
        print_error(problem)
    return USAGE_ERROR


def prune_(args: argparse.Namespace, path: Path) -> int:
    """Delete the rows that are older than `--before`, which must not be in the future."""
    if args.before > time.time():
        print_error("--before: the time is in the future, and all rows would be deleted")
        return USAGE_ERROR
    before = round(1000 * args.before)
    with closing(open_to_read(path)) as existing:  # a mistyped path must not create a history
        _require_target(existing, args.target)
    with closing(open_to_write(path)) as connection:
        for kind in _kinds(args.kind):
            deleted = prune.delete_all_rows(connection, kind, before, args.target)
            print_lines(f"{kind.name}: {deleted:,} deleted")
    return 0


def _require_target(connection: sqlite3.Connection, target: str | None) -> None:
    """Raise `UnknownTargetError` if the history has no such target."""
    known = target_names(connection)
    if target is not None and target not in known:
        raise UnknownTargetError(
            f"no target {target!r}; the history has {', '.join(known) or 'none yet'}"
        )


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    action: Callable[[argparse.Namespace, Path], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=text.capitalize() + ".")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=Path,
        help="the configuration that names the history",
    )
    which.add_argument("--file", metavar="DB", type=Path, help="the history itself")
    parser.set_defaults(run=lambda args: _run_action(args, action))
    return parser


def _add_kind(parser: argparse.ArgumentParser, kinds: list[str], default: str) -> None:
    parser.add_argument(
        "--kind", choices=kinds, default=default, help=f"the kind of rows (default: {default})"
    )


def _run_action(args: argparse.Namespace, action: Callable[[argparse.Namespace, Path], int]) -> int:
    """Return 0 if done, 1 if the history cannot be used, 2 if the input is wrong."""
    path = args.file or configured_history(load_config(args.config_file), args.config_file)
    try:
        return action(args, path)
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error


def _kinds(name: str) -> list[RowKind]:
    return [kind for kind in KINDS.values() if name in (kind.name, ALL)]


def _write(lines: Iterator[str], output: Path | None) -> None:
    """Write to standard output, or into a private file, as the lines describe our servers."""
    if output is None or str(output) == STANDARD_INPUT:
        write_output(lines)
        return
    try:
        with history_file.open_private(output) as file:
            file.writelines(lines)
    except OSError as error:
        raise unwritable_file_error(str(output), "it", error) from None


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, rolled back on an exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
