"""What each part of the models is worth: one is changed, the same servers assessed.

    python bench/ablation.py [--module capacity.doubts] [--constant NAME] [--factor 1.5] [--off]
                             [--servers 1] [--seed 1] [--every 1] [--results FILE]
                             [--only-what-matters]

Parts are the numbers that the modules of the capacity, of the law and of trust define, each
multiplied and divided by a factor, and the doubts, each switched off; `--off` gives rules the value
at which they do nothing (`OFF`) instead. Every variant is a copy of
`models` of its own, with that one line changed. It assesses the simulated days of
`bench/capacity.py` and the real servers that the tests have recorded, and fits the published
curves below 40, 60 and 80 % of their peaks. The cases are the same for all, so errors are compared
pair by pair: the mean change of |ln(capacity/truth)| in per cent, with its standard error; the
change of its 90 % quantile, and of the intervals' mean width (ln(upper/lower), in per cent); then
how many more are covered, trusted, and trusted and off by more than 15 %.

*Nothing* is a variant that no case tells from what is: no error moves by 1 %, and no case is
covered or trusted that was not. `--results` keeps each variant that is done in a file, by its
title, and takes those that are there from it: the bench goes on where it was stopped. `--every 4`
assesses every fourth simulated day only, of all scenarios and loads in turn.
"""

import argparse
import ast
import itertools
import json
import multiprocessing
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
FIXTURES = ROOT / "tests" / "fixtures"
PARTS = ("capacity/*.py", "usl/*.py", "shared_constants.py", "trust.py", "robust_regression.py")
MIN_POINTS = 3
SHARES = (0.4, 0.6, 0.8)
"""Of their peaks the published curves are seen up to."""
WRONG = 0.15
WIDEST = np.log(100.0)
"""An interval that is wider, or has one end only, counts as so wide."""
OFF = {
    "capacity.resource_and_limit.MAX_LIMIT_RATIO": "np.inf",
    "capacity.change_points.MAX_STEPS": "1",
    "capacity.change_points.MAX_SWITCHES": "10**6",
    "capacity.contention_peak.ABRUPT_PRIOR": "0.0",
    "capacity.resource_and_limit.OTHER_PROGRAMS_SHARE": "0.0",
    "capacity.shared_cost.POLYNOMIAL_DEGREE": "1",
    "capacity.shared_cost.MIN_LOAD_SHARE": "0.0",
}
"""The constants of rules, by module and name, and values at which these do nothing."""
CapacityRow = tuple[float | None, float | None, float | None, bool]
"""Capacity, lower and upper end of its interval (queries/s), and whether it is trusted."""


class ChangedLine(NamedTuple):
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
    width: np.ndarray[Any, np.dtype[np.float64]]
    """ln(upper/lower)."""
    covered: np.ndarray[Any, np.dtype[np.bool_]]
    trusted: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def wrong(self) -> int:
        """How many are trusted and off by more than 15 %."""
        return int(np.count_nonzero(self.trusted & (np.abs(self.error) > WRONG)))


def main() -> None:
    """Print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--module", action="append", help="such as capacity.doubts; all if not given"
    )
    parser.add_argument("--constant", action="append")
    parser.add_argument("--factor", type=float, default=1.5)
    parser.add_argument("--off", action="store_true", help="rules that are switched off instead")
    parser.add_argument("--servers", type=int, default=1, help="simulated, per scenario and load")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated days")
    parser.add_argument("--every", type=int, default=1, help="every so many simulated days")
    parser.add_argument("--results", type=Path, help="keep them here, and go on from there")
    parser.add_argument("--only-what-matters", action="store_true")
    args = parser.parse_args()
    done = _done(args.results)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cases"
        truths = _write_cases(file, args.servers, args.seed, args.every)
        base = _outcome(ROOT, file, truths)
        print(f"{len(truths)} cases: {_summary(base)}\n")
        print("| part | now | changed to | mean error | 90 % | width | covered | trusted | wrong |")
        print("|---|---|---|---|---|---|---|---|---|")
        for part in rules_off() if args.off else parts(args.factor):
            if args.module and part.module not in args.module:
                continue
            if args.constant and part.name not in args.constant:
                continue
            title = _title(part)
            if title not in done:
                variant = _variant(part, Path(folder), file, truths)
                done[title] = _compared(base, variant) if variant else "does not run | | | | |"
                if args.results:
                    with args.results.open("a", encoding="utf-8") as kept:
                        print(json.dumps([title, done[title]]), file=kept)
            if done[title] or not args.only_what_matters:
                print(f"| {title} | {done[title] or 'nothing | | | | |'} |", flush=True)


def _done(results: Path | None) -> dict[str, str | None]:
    """Read what an earlier run has found, by the variant's title."""
    if results is None or not results.exists():
        return {}
    return dict(json.loads(line) for line in results.read_text(encoding="utf-8").splitlines())


def _write_cases(file: Path, servers: int, seed: int, every: int) -> list[float]:
    """Pickle what is seen of each case, and return the true capacities."""
    simulated = itertools.islice(_simulated(servers, seed), 0, None, every)
    cases = [*simulated, *_recorded(), *_published()]
    file.write_bytes(pickle.dumps([seen for seen, _ in cases]))
    return [truth for _, truth in cases]


def _simulated(servers: int, seed: int) -> Iterator[tuple[Any, float]]:
    from testbed.simulated.day_scenarios import scenarios, simulate_day

    for number, scenario in enumerate(scenarios()):
        for reach in scenario.reaches:
            for i in range(servers):
                rng = np.random.default_rng([seed, number, int(100 * reach), i])
                server = scenario.server(rng)
                seen = simulate_day(server, scenario.settings(reach), rng)
                yield seen.thinned(), server.capacity


def _recorded() -> Iterator[tuple[Any, float]]:
    from agent.pipeline import observations
    from agent.window.concurrency import ConcurrencySource
    from testbed.recorded.peak_predictions import clients_peak, saved, seen_below

    for recording in sorted(FIXTURES.glob("real/*.json.gz")) + sorted(
        FIXTURES.glob("zoo/*.json.gz")
    ):
        run = saved(recording)
        for part in run["caps"]:
            seen = observations(seen_below(run, part), ConcurrencySource.STATEMENT_TIME)
            yield seen, clients_peak(run, part)[0]


def _published() -> Iterator[tuple[Any, float]]:
    from testbed.published.curves import CURVES

    for curve in CURVES:
        for share in SHARES:
            n, x = curve.below(share)
            if len(n) >= MIN_POINTS:
                yield (n, x), curve.x_max


def _outcome(root: Path, file: Path, truths: list[float]) -> Outcome:
    """Assess every case with the models below that folder, in a process of its own."""
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        rows: list[CapacityRow] = pool.apply(_assessed, (root, file))
    error = [1.0 if not r[0] else np.log(r[0] / t) for r, t in zip(rows, truths, strict=True)]
    width = [min(np.log(r[2] / r[1]), WIDEST) if r[1] and r[2] else WIDEST for r in rows]
    covered = [(r[1] or 0.0) <= t <= (r[2] or np.inf) for r, t in zip(rows, truths, strict=True)]
    trusted = [r[3] for r in rows]
    return Outcome(np.array(error), np.array(width), np.array(covered), np.array(trusted))


def _assessed(root: Path, file: Path) -> list[CapacityRow]:
    """Forget the models that this process knows, and take those below that folder."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
        del sys.modules[name]
    sys.path.insert(0, str(root))
    from models.capacity.assess import assess_capacity
    from models.usl.fit import fit

    rows: list[CapacityRow] = []
    for seen in pickle.loads(file.read_bytes()):
        try:
            if isinstance(seen, tuple):
                law = fit(*seen)
                ends = law.x_max_interval or (None, None)
                rows.append((law.x_max, *ends, law.trust == "trusted"))
                continue
            known = tuple(
                r.with_shared_costs(seen.throughput, seen.concurrency) for r in seen.resources
            )
            found = assess_capacity(replace(seen, resources=known))
            rows.append((found.value, found.lower, found.upper, found.trust == "trusted"))
        except (ArithmeticError, LookupError, ValueError, np.linalg.LinAlgError):
            rows.append((None, None, None, False))
    return rows


def _variant(part: ChangedLine, folder: Path, file: Path, truths: list[float]) -> Outcome | None:
    """Assess with a copy of the models in which one statement is another; None: it fails."""
    root = folder / "variant"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(MODELS, root / "models", ignore=shutil.ignore_patterns("*.pyc"))
    module = root / "models" / f"{part.module.replace('.', '/')}.py"
    lines = module.read_text(encoding="utf-8").splitlines()
    lines[part.line - 1 : part.line - 1 + part.lines] = [part.text]
    module.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        return _outcome(root, file, truths)
    except (ArithmeticError, LookupError, ValueError):
        return None


def rules_off() -> Iterator[ChangedLine]:
    """Give each rule the value at which it does nothing."""
    for rule, value in OFF.items():
        module, _, name = rule.rpartition(".")
        file = MODELS / f"{module.replace('.', '/')}.py"
        lines = file.read_text(encoding="utf-8").splitlines()
        [line] = [number for number, text in enumerate(lines) if text.startswith(f"{name} = ")]
        before = lines[line].partition(" = ")[2]
        yield ChangedLine(module, name, before, value, line + 1, 1, f"{name} = {value}")


def parts(factor: float) -> Iterator[ChangedLine]:
    """Find every number that a module defines, changed either way, and every doubt."""
    for file in (file for pattern in PARTS for file in sorted(MODELS.glob(pattern))):
        source = file.read_text(encoding="utf-8")
        module = ".".join(file.relative_to(MODELS).with_suffix("").parts)
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and _is_number(node.value):
                yield from _numbers(module, node, source, factor)
            elif isinstance(node, ast.Assign) and _names(node) == "DOUBTS":
                yield from _doubts(module, node, source)


def _numbers(module: str, node: ast.Assign, source: str, factor: float) -> Iterator[ChangedLine]:
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
            yield ChangedLine(module, name, what, repr(changed), *_place(node), text)


def _scaled(value: float, by: float) -> float:
    """Multiply a number; one that is whole stays whole, and changes by 1 at least.

    Of a share of more than a half, what it lacks of 1 is divided: it stays one.
    """
    if isinstance(value, int):
        return (
            max(round(value * by), value + 1)
            if by > 1
            else max(min(round(value * by), value - 1), 1)
        )
    scaled = 1 - (1 - value) / by if 0.5 < value < 1 else value * by
    return float(f"{scaled:.4g}")


def _doubts(module: str, node: ast.Assign, source: str) -> Iterator[ChangedLine]:
    """Switch each doubt off in turn."""
    if not isinstance(node.value, ast.Tuple):
        return
    for call in node.value.elts:
        if isinstance(call, ast.Call):
            threshold, reason = call.args[2], ast.unparse(call.args[0]).partition(".")[2]
            text = _replaced(source, node, threshold, "float('inf')")
            name = f"{reason} ({ast.unparse(call.args[3])})"
            yield ChangedLine(module, name, ast.unparse(threshold), "off", *_place(node), text)


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
    """Return whether it is made of numbers, tuples, arithmetic and calls of NumPy alone."""
    if any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(value)):
        return False
    return isinstance(value, ast.Constant | ast.Tuple | ast.BinOp | ast.Call) and any(
        isinstance(one, ast.Constant) and isinstance(one.value, int | float)
        for one in ast.walk(value)
    )


def _names(node: ast.Assign) -> str:
    return ", ".join(ast.unparse(target) for target in node.targets)


def _title(part: ChangedLine) -> str:
    return f"{part.module}.{part.name} | {part.before} | {part.after}"


def _compared(base: Outcome, other: Outcome) -> str | None:
    """Describe what changed; None where nothing did."""
    change = 100 * (np.abs(other.error) - np.abs(base.error))
    covered = int(other.covered.sum()) - int(base.covered.sum())
    trusted = int(other.trusted.sum()) - int(base.trusted.sum())
    same = np.array_equal(other.covered, base.covered)
    same &= np.array_equal(other.trusted, base.trusted)
    if same and float(np.abs(change).max()) < 1.0:
        return None
    tail = 100 * (np.quantile(np.abs(other.error), 0.9) - np.quantile(np.abs(base.error), 0.9))
    width = 100 * (other.width.mean() - base.width.mean())
    error = float(change.std() / np.sqrt(len(change)))
    cells = [f"{change.mean():+.2f} ± {error:.2f}", f"{tail:+.1f}", f"{width:+.1f}"]
    return " | ".join([*cells, f"{covered:+d}", f"{trusted:+d}", f"{other.wrong - base.wrong:+d}"])


def _summary(outcome: Outcome) -> str:
    sizes = np.abs(outcome.error)
    return (
        f"error {100 * np.median(sizes):.1f} % in the median, {100 * sizes.mean():.1f} % on"
        f" average; {outcome.covered.mean():.0%} covered, {outcome.trusted.mean():.0%} trusted,"
        f" {outcome.wrong} of them wrong"
    )


if __name__ == "__main__":
    main()
