"""What each part of the capacity's models is worth: one is changed, the same servers assessed.

    python bench/ablation.py [--module doubts] [--constant NAME] [--factor 1.5] [--servers 1]
                             [--only-what-matters]

Parts are the numbers that the modules of `models/capacity` define, each multiplied and divided by
a factor, and the doubts, each switched off. Every variant is a copy of `models` of its own, with
that one line changed, and assesses the simulated days of `bench/capacity.py` and the recorded real
servers of the tests. The days and the recordings are the same for all, so errors are compared pair
by pair: the mean change of |ln(capacity/truth)| in per cent, with its standard error; then how many
more are covered, trusted, and trusted and off by more than 15 %.
"""

import argparse
import ast
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "models" / "capacity"
RECORDED = ROOT / "tests" / "fixtures" / "real"
WRONG = 0.15
ASSESS = """
import json, pickle, sys
from dataclasses import replace
from models.capacity.assess import assess_capacity
for seen in pickle.load(open(sys.argv[1], "rb")):
    known = tuple(r.with_idleness(seen.throughput) for r in seen.resources)
    seen = replace(seen, resources=known)
    try:
        found = assess_capacity(seen)
        print(json.dumps([found.value, found.lower, found.upper, found.trust == "trusted"]))
    except Exception as error:
        print(json.dumps([None, None, None, False]))
"""


class Part(NamedTuple):
    """One line of one module, and what it is changed to."""

    module: str
    name: str
    before: str
    after: str
    line: int
    """The first line of the statement, from 1; `lines` of them are replaced."""
    lines: int
    text: str
    """What stands there instead."""


class Outcome(NamedTuple):
    """What a variant says of every case; arrays of shape (cases,)."""

    error: np.ndarray[Any, np.dtype[np.float64]]
    """ln(capacity/truth); 1 where there is no capacity."""
    covered: np.ndarray[Any, np.dtype[np.bool_]]
    trusted: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def wrong(self) -> int:
        """Count those that are trusted and off by more than 15 %."""
        return int(np.count_nonzero(self.trusted & (np.abs(self.error) > WRONG)))


def main() -> None:
    """Print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", action="append", help="of models/capacity; all if not given")
    parser.add_argument("--constant", action="append")
    parser.add_argument("--factor", type=float, default=1.5)
    parser.add_argument("--servers", type=int, default=1, help="simulated, per scenario and load")
    parser.add_argument("--only-what-matters", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, truths = Path(folder) / "cases", []
        with file.open("wb") as cases:
            truths = _write_cases(cases, args.servers)
        base = _outcome(ROOT, file, truths)
        print(f"{len(truths)} cases: {_summary(base)}\n")
        print("| part | now | changed to | mean error | covered | trusted | trusted and wrong |")
        print("|---|---|---|---|---|---|---|")
        for part in parts(args.factor):
            if args.module and part.module not in args.module:
                continue
            if args.constant and part.name not in args.constant:
                continue
            line = _compared(part, base, _variant(part, Path(folder), file, truths))
            if line or not args.only_what_matters:
                print(line or f"| {_title(part)} | nothing | | | |", flush=True)


def _write_cases(cases: Any, servers: int) -> list[float]:
    """Pickle the observations, and return the true capacities."""
    from real_servers import saved, seen_below, true_peak
    from simulated_days import live, scenarios

    from agent.pipeline import observations
    from agent.window.concurrency import Source
    from models.capacity.thinning import thin

    found, truths = [], []
    for number, scenario in enumerate(scenarios()):
        for reach in scenario.reaches:
            for i in range(servers):
                rng = np.random.default_rng([1, number, int(100 * reach), i])
                server = scenario.server(rng)
                seen = live(server, scenario.life(reach), rng)
                kept = thin(seen.at, seen.throughput, float(seen.at[-1]))
                found.append(replace(seen.select(kept.indices), weights=kept.weights))
                truths.append(server.capacity)
    for recording in sorted(RECORDED.glob("*.json.gz")):
        run = saved(recording)
        for part in run["caps"]:
            found.append(observations(seen_below(run, part), Source.STATEMENT_TIME))
            truths.append(true_peak(part["peaks"])[0])
    pickle.dump(found, cases)
    return truths


def _outcome(root: Path, file: Path, truths: list[float]) -> Outcome:
    """Assess every case with the models below that folder."""
    words = [sys.executable, "-c", ASSESS, str(file)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if len(rows) != len(truths):
        sys.exit(done.stderr[-2000:])
    error = [1.0 if not r[0] else np.log(r[0] / t) for r, t in zip(rows, truths, strict=True)]
    covered = [(r[1] or 0.0) <= t <= (r[2] or np.inf) for r, t in zip(rows, truths, strict=True)]
    return Outcome(np.array(error), np.array(covered), np.array([r[3] for r in rows]))


def _variant(part: Part, folder: Path, file: Path, truths: list[float]) -> Outcome:
    """Assess with a copy of the models in which one statement is another."""
    root = folder / "variant"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(ROOT / "models", root / "models", ignore=shutil.ignore_patterns("*.pyc"))
    module = root / "models" / "capacity" / f"{part.module}.py"
    lines = module.read_text(encoding="utf-8").splitlines()
    lines[part.line - 1 : part.line - 1 + part.lines] = [part.text]
    module.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return _outcome(root, file, truths)


def parts(factor: float) -> Iterator[Part]:
    """Find every number that a module defines, changed either way, and every doubt."""
    for file in sorted(MODULES.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and _is_number(node.value):
                yield from _numbers(file.stem, node, source, factor)
            elif isinstance(node, ast.Assign) and _names(node) == "DOUBTS":
                yield from _doubts(file.stem, node, source)


def _numbers(module: str, node: ast.Assign, source: str, factor: float) -> Iterator[Part]:
    """Change each number of an assignment in turn."""
    value = ast.get_source_segment(source, node.value) or ""
    for leaf in ast.walk(node.value):
        if not isinstance(leaf, ast.Constant) or not isinstance(leaf.value, int | float):
            continue
        if not leaf.value:
            continue
        for by in (factor, 1 / factor):
            changed = _scaled(leaf.value, by)
            if changed == leaf.value:
                continue
            text = _replaced(source, node, leaf, repr(changed))
            name = _names(node)
            what = f"{leaf.value} of {value}" if value != str(leaf.value) else value
            yield Part(module, name, what, repr(changed), *_place(node), text)


def _scaled(value: float, by: float) -> float:
    """Multiply a number; one that is whole stays whole, and changes by 1 at least."""
    if isinstance(value, int):
        return (
            max(round(value * by), value + 1)
            if by > 1
            else max(min(round(value * by), value - 1), 1)
        )
    return float(f"{value * by:.4g}")


def _doubts(module: str, node: ast.Assign, source: str) -> Iterator[Part]:
    """Switch each doubt off in turn."""
    if not isinstance(node.value, ast.Tuple):
        return
    for call in node.value.elts:
        if isinstance(call, ast.Call):
            threshold, reason = call.args[2], ast.unparse(call.args[0]).partition(".")[2]
            text = _replaced(source, node, threshold, "float('inf')")
            name = f"{reason} ({ast.unparse(call.args[3])})"
            yield Part(module, name, ast.unparse(threshold), "off", *_place(node), text)


def _place(node: ast.Assign) -> tuple[int, int]:
    """Return the first line of a statement, and how many it has."""
    return node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def _replaced(source: str, node: ast.Assign, leaf: ast.expr, text: str) -> str:
    """Return the statement's source with one expression replaced."""
    lines = source.splitlines()
    row = leaf.lineno - 1
    whole = lines[row].encode()
    if leaf.end_lineno != leaf.lineno or leaf.end_col_offset is None:
        sys.exit(f"a number on several lines: {whole!r}")
    lines[row] = (whole[: leaf.col_offset] + text.encode() + whole[leaf.end_col_offset :]).decode()
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is made of numbers, tuples, arithmetic and calls of NumPy alone."""
    if any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(value)):
        return False
    return isinstance(value, ast.Constant | ast.Tuple | ast.BinOp | ast.Call) and any(
        isinstance(one, ast.Constant) and isinstance(one.value, int | float)
        for one in ast.walk(value)
    )


def _names(node: ast.Assign) -> str:
    return ", ".join(ast.unparse(target) for target in node.targets)


def _title(part: Part) -> str:
    return f"{part.module}.{part.name} | {part.before} | {part.after}"


def _compared(part: Part, base: Outcome, other: Outcome) -> str | None:
    """Describe what changed; None where nothing did."""
    change = 100 * (np.abs(other.error) - np.abs(base.error))
    covered = int(other.covered.sum()) - int(base.covered.sum())
    trusted = int(other.trusted.sum()) - int(base.trusted.sum())
    if not covered and not trusted and float(np.abs(change).max()) < 1.0:
        return None
    error = float(change.std() / np.sqrt(len(change)))
    cells = [f"{change.mean():+.2f} ± {error:.2f}", f"{covered:+d}", f"{trusted:+d}"]
    return f"| {_title(part)} | " + " | ".join([*cells, f"{other.wrong - base.wrong:+d}"]) + " |"


def _summary(outcome: Outcome) -> str:
    sizes = np.abs(outcome.error)
    return (
        f"error {100 * np.median(sizes):.1f} % in the median, {100 * sizes.mean():.1f} % on"
        f" average; {outcome.covered.mean():.0%} covered, {outcome.trusted.mean():.0%} trusted,"
        f" {outcome.wrong} of them wrong"
    )


if __name__ == "__main__":
    main()
