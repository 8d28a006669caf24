"""`mysql-headroom attribute FILE.csv`: divide a resource over query classes, from files."""

import argparse
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from agent.commands.exit_codes import USAGE_ERROR
from agent.commands.interruption import interruptible
from agent.commands.progress import progress_of
from agent.csv_input.class_file import ClassFile, read_classes
from agent.csv_input.host_file import DEFAULT_RESOURCE, join_host_file, read_host
from agent.csv_input.table_file import TableFileError
from agent.export.attribute_report import format_attribution
from agent.support.safe_output import json_text, print_error, print_lines
from models.attribution.call_and_row_costs import PART_OF_CPU, WHOLE_CPU
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.quality_gate import withhold_failing
from models.attribution.resource_division import attribute
from models.attribution.result import (
    Attribution,
    ClassUse,
    DivisionMethod,
    PredictionError,
    disagreement,
)

MAX_LISTED_CLASSES = 5
CPU_SECONDS = re.compile(r"cpu\w*_s$|^[us]time_s$")
"""Resources that are CPU time in seconds, by their names."""
PARTIAL_CPU = re.compile(r"^[us]time|user|sys")
"""Those of them that are a part of the CPU time: in user mode or in the kernel."""
WRITTEN, READ = re.compile(r"writ\w*bytes|wchar"), re.compile(r"read\w*bytes|rchar")
"""Resources that are bytes of disks, by their names."""


@dataclass(frozen=True)
class AttributeResult:
    """The result of one run of the command."""

    resource: str
    attribution: Attribution
    prediction: PredictionError | None
    """The error of predicting the second file; None: none was named."""
    truth_error: float | None
    """Σ|share − true share|, if the file has the classes' true CPU."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "attribute",
        help="estimate how much CPU or IO each query class uses, from CSV files",
        description="Divide a resource of the whole server over its query classes: measured "
        "where the server measures it, otherwise estimated, with the uncertainty.",
    )
    parser.add_argument(
        "file",
        metavar="FILE.csv",
        help="a column per class and the resource, or a row per interval and class: t_s, class, "
        "timer_wait_s, count, …; may be gzipped; - is standard input",
    )
    parser.add_argument(
        "--predict", metavar="FILE2.csv", help="predict this file's resource from FILE.csv's fit"
    )
    parser.add_argument(
        "--host", metavar="HOST.csv", help="the resource by t_s, for a row per interval and class"
    )
    parser.add_argument(
        "--predict-host", metavar="HOST2.csv", help="the same for FILE2.csv (default: HOST.csv)"
    )
    parser.add_argument(
        "--resource",
        metavar="COLUMN",
        help=f"what to divide (default: the last column; with --host {DEFAULT_RESOURCE})",
    )
    parser.add_argument(
        "--method",
        choices=[
            method.value for method in DivisionMethod if method is not DivisionMethod.MEASURED
        ],
        default=DivisionMethod.AUTO.value,
        help="auto: the best source available (default); wlr: weighted linear regression as "
        "published; work-time: in proportion to statement time without lock waits and wait "
        "functions; learned: from how the total changes with calls and rows",
    )
    parser.add_argument(
        "--format", choices=["table", "json"], default="table", help="default: table"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, divide, predict, print. Return 0, or 2 with one line on standard error."""
    if args.predict_host and not args.predict:
        text = "--predict-host needs a file to predict; name the other file with --predict"
        print_error(text)
        return USAGE_ERROR
    with interruptible():
        answer = _answer(args)
    formats: dict[str, Callable[[AttributeResult], str]] = {"table": _as_table, "json": as_json}
    print_lines(formats[args.format](answer))
    return 0


def _answer(args: argparse.Namespace) -> AttributeResult:
    classes = _read(args.file, args.host, args.resource)
    use = _divided_use(classes)
    method = DivisionMethod(args.method)
    intervals = _usable_intervals(classes, use)
    doing = f"dividing over {len(intervals.names):,} classes in {len(intervals):,} intervals"
    found = attribute(intervals, use, method, classes.host, progress_of(doing))
    if classes.at is not None and not use.is_cpu_seconds and method is DivisionMethod.AUTO:
        found = withhold_failing(_resource_name(str(classes.resource)), classes.intervals, found)
    prediction = _prediction_error(args, classes, found) if args.predict is not None else None
    return AttributeResult(
        str(classes.resource), found, prediction, _truth_error(classes, use, found)
    )


def _prediction_error(
    args: argparse.Namespace, classes: ClassFile, found: Attribution
) -> PredictionError:
    """Return the error of predicting the second file, and print which of its classes are new."""
    other = _read(args.predict, args.predict_host or args.host, classes.resource)
    unknown = [name for name in other.intervals.names if name not in classes.intervals.names]
    if len(unknown) == len(other.intervals.names):
        problem = f"it has no class of {classes.name}"
        raise TableFileError(other.name, None, problem, "predict a file of the same classes")
    if unknown:
        listed = ", ".join(unknown[:MAX_LISTED_CLASSES])
        more = ", …" if len(unknown) > MAX_LISTED_CLASSES else ""
        problem = f"{len(unknown):,} of its {len(other.intervals.names):,} classes are not in"
        print_error(
            f"{other.name}: {problem} {classes.name} and are predicted as its `other`, or not at"
            f" all: {listed}{more}"
        )
    return PredictionError.of(_divided_use(other).y, found.predictor.predict(other.intervals))


def _read(path: str, host_path: str | None, resource: str | None) -> ClassFile:
    """Read a class file and, for the long form, its resource."""
    classes = read_classes(path, resource)
    if host_path is not None:
        return join_host_file(classes, read_host(host_path, resource or DEFAULT_RESOURCE))
    if classes.y is None:
        problem = "a row per interval and class, and the resource is in another file"
        raise TableFileError(classes.name, 1, problem, "name that file with --host HOST.csv")
    return classes


def _divided_use(classes: ClassFile) -> DividedUse:
    y, resource = classes.y, classes.resource
    if y is None or resource is None or not y.any():
        problem = f"{resource} is 0 in every interval"
        raise TableFileError(classes.name, None, problem, "name another with --resource")
    if classes.at is None:
        return DividedUse(y)
    cpu = CPU_SECONDS.search(resource) is not None
    bounds = PART_OF_CPU if PARTIAL_CPU.search(resource) else WHOLE_CPU
    return DividedUse(y, is_cpu_seconds=cpu, time_like=cpu and classes.has_times, bounds=bounds)


def _resource_name(resource: str) -> str:
    """Return the agent's name for bytes of disks; any other resource keeps its name."""
    kinds = {"written": WRITTEN, "read": READ}
    return next((kind for kind, names in kinds.items() if names.search(resource)), resource)


def _usable_intervals(classes: ClassFile, use: DividedUse) -> ClassIntervals:
    """Return the intervals, without their measured CPU if the resource is a part of the CPU.

    Measured CPU is user and system time together.
    """
    return replace(classes.intervals, cpu=None) if use.bounds.is_part_of_cpu else classes.intervals


def _truth_error(classes: ClassFile, use: DividedUse, found: Attribution) -> float | None:
    """Return Σ|share − true share|, None if unknown; the truth is used for nothing else."""
    if classes.truth is None or not use.is_cpu_seconds or use.bounds.is_part_of_cpu:
        return None
    return disagreement(found.totals, classes.truth.sum(axis=0))


def _as_table(answer: AttributeResult) -> str:
    return format_attribution(
        answer.resource, answer.attribution, answer.prediction, answer.truth_error
    )


def as_json(answer: AttributeResult) -> str:
    """Write the answer as JSON: null where something does not exist, the keys always the same."""
    found = answer.attribution
    compared = found.compared_with
    content = {
        "method": found.method.value,
        "resource": answer.resource,
        "intervals": found.intervals,
        "total": found.total,
        "classes": {use.name: _class_as_json(use) for use in found.ranked},
        "unattributed": found.unattributed,
        "fit": asdict(found.fit),
        "held_out": asdict(found.held_out),
        "prediction": asdict(answer.prediction) if answer.prediction else None,
        "disagreement": found.disagreement,
        "compared_with": compared.value if compared else None,
        "reasons": [reason.value for reason in found.reasons],
        "truth_error": answer.truth_error,
    }
    return json_text(content, indent=2)


def _class_as_json(use: ClassUse) -> dict[str, float | int | bool | None]:
    line = use.line
    return {
        "total": use.total,
        "share": use.share,
        "slope": line.slope if line.is_usable else None,
        "intercept": line.start_cost if line.is_usable else None,
        "r_squared": line.r_squared,
        "stderr": use.stderr,
        "slope_stderr": line.slope_stderr,
        "intercept_stderr": line.intercept_stderr,
        "samples": line.samples,
        "waits": use.waits,
    }
