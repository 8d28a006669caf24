"""Mutation testing: one small mistake at a time in our code, and how many of them the tests notice.

A comparison, an operator, a number, `and`, `or` or `not` is changed in a copy of the checkout, and
the test files that name the module are run there, or where none does those that name its package. A
random sample is taken until the time is up; each change that no test notices is printed. Other test
files may notice it: the score is that of a module's own tests.

    python bench/mutation.py models/capacity --seconds 600 --without test_capacity_simulated.py
                             [--most MUTANTS] [--seed 1]
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("agent", "bench", "collectors", "deploy", "docs", "models", "scripts", "testbed", "tests")
FILES = ("pyproject.toml", "config.example.yaml", "README.md", "CHANGELOG.md")
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Without compiled files every run would compile all that the tests import."""
MAX_SECONDS = 180.0  # seconds for the tests of one mutant; one that takes longer is noticed
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A module (path within the checkout) with one change."""

    module: Path
    line: int
    change: str
    text: str


class Mutation(ast.NodeTransformer):
    """Make the change with this number, counted from 0 as the tree is walked."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.line, self.text = 0, ""

    def visit(self, node: ast.AST) -> ast.AST:
        """Change the node, or look below it."""
        other = changed(node)
        if other is None:
            return self.generic_visit(node)
        self._left -= 1
        if self._left >= 0:
            return self.generic_visit(node)
        if not self.line:
            self.line = getattr(node, "lineno", 0)
            self.text = f"{ast.unparse(node)}  →  {ast.unparse(other)}"
            return other
        return node


def changed(node: ast.AST) -> ast.expr | None:
    """The expression with one mistake in it; None where there is nothing to change."""
    match node:
        case ast.Compare(left, [operator], others) if type(operator) in OTHER:
            return ast.Compare(left, [_other(operator)], others)  # type: ignore[list-item]
        case ast.BinOp(left, operator, right) if type(operator) in OTHER:
            return ast.BinOp(left, _other(operator), right)  # type: ignore[arg-type]
        case ast.BoolOp(operator, values):
            return ast.BoolOp(_other(operator), values)  # type: ignore[arg-type]
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool()):
            return None
        case ast.Constant(int(number)):
            return ast.Constant(number + 1)
        case ast.Constant(float(number)):
            return ast.Constant(1.5 * number if number else 1.0)
    return None


def _other(operator: ast.AST) -> ast.AST:
    return OTHER[type(operator)]()


def mutants(module: Path) -> Iterator[Mutant]:
    """Every change of a module (path within the checkout)."""
    source = (ROOT / module).read_text(encoding="utf-8")
    for number in range(sum(changed(node) is not None for node in ast.walk(ast.parse(source)))):
        change = Mutation(number)
        tree = change.visit(ast.parse(source))
        if change.line:
            text = ast.unparse(ast.fix_missing_locations(tree))
            yield Mutant(module, change.line, change.text, text)


def tests_of(module: Path, without: list[str]) -> list[str]:
    """The test files that name the module, or else its package; none that needs a real server."""
    dotted = ".".join(module.with_suffix("").parts)
    package, _, name = dotted.rpartition(".")
    named = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import .*\b{name}\b")
    files = {f"tests/{f.name}": f.read_text() for f in sorted((ROOT / "tests").glob("test_*.py"))}
    fit = {n: t for n, t in files.items() if Path(n).name not in without and "_live_" not in n}
    own = [file for file, text in fit.items() if named.search(text)]
    return own or [file for file, text in fit.items() if package in text]


def copy_checkout(to: Path) -> None:
    """Copy what the tests need, less what was fetched or compiled."""
    for name in COPIED:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, to / name)


def is_noticed(mutant: Mutant, checkout: Path, tests: list[str]) -> bool:
    """Return whether a test fails, or none ends, while the module has that change."""
    file = checkout / mutant.module
    whole = file.read_text(encoding="utf-8")
    write_module(file, mutant.text)
    try:
        return not passes(checkout, tests)
    finally:
        write_module(file, whole)


def write_module(file: Path, text: str) -> None:
    """Write a module and forget what it was compiled to: its size and time may be the same."""
    file.write_text(text, encoding="utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
        compiled.unlink()


def passes(checkout: Path, tests: list[str], seconds: float = MAX_SECONDS) -> bool:
    """Return whether these test files pass in that checkout, in time."""
    options = (
        "-x",
        "-q",
        "--reruns=0",
        "-m",
        "not live",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=checkout,
            env={name: text for name, text in os.environ.items() if name != NO_BYTECODE},
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Draw mutants until the time is up; print those that survive and the score."""
    parser = argparse.ArgumentParser(description="Mutation testing of a package.")
    parser.add_argument(
        "packages", nargs="+", type=Path, help="or modules; such as models/capacity"
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--most", type=int, default=10**6, help="mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], help="a test file's name")
    options = parser.parse_args()
    modules = [
        path.relative_to(ROOT)
        for package in options.packages
        for path in sorted((ROOT / package).rglob("*.py")) or [ROOT / package]
    ]
    drawn = [mutant for module in modules for mutant in mutants(module)]
    random.Random(options.seed).shuffle(drawn)
    noticed = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        copy_checkout(checkout)
        passing = cache(lambda tests: passes(checkout, list(tests)))
        ends = time.monotonic() + options.seconds
        for mutant in drawn[: options.most]:
            if time.monotonic() > ends:
                break
            tests = tests_of(mutant.module, options.without)
            if not tests or not passing(tuple(tests)):
                print(f"left out: {mutant.module}: its tests fail, or take too long", flush=True)
                continue
            found = is_noticed(mutant, checkout, tests)
            tried, noticed = tried + 1, noticed + found
            if not found:
                print(f"survived: {mutant.module}:{mutant.line}: {mutant.change}", flush=True)
    share = f", {100 * noticed / tried:.0f} %" if tried else ""
    print(f"{noticed} of {tried} mutants noticed{share}; {len(drawn)} are possible")
    return 0


if __name__ == "__main__":
    sys.exit(main())
