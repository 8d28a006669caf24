"""`mysql-headroom fit FILE.csv`: fit the law to a file and print where the peak is."""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from agent.commands.exit_codes import USAGE_ERROR
from agent.commands.plot_requirements import matplotlib_problem, plot_path_problem
from agent.config.durations import duration_in_seconds
from agent.csv_input.curve_file import CurveFile, read_curve
from agent.csv_input.table_file import unwritable_file_error
from agent.export.fit_report import RequestedPoint, format_fit
from agent.support.safe_output import print_error, print_lines
from models.usl.fit import FitMethod, UslFit, fit
from models.usl.law import Usl
from models.usl.law_point import LawPoint, at_concurrency, at_residence_time, at_throughput


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "fit",
        help="fit the Universal Scalability Law to a CSV file",
        description="Fit the Universal Scalability Law to concurrency (threads) and throughput "
        "(queries/s), and print where the peak is, with its uncertainty.",
    )
    parser.add_argument(
        "file", metavar="FILE.csv", help="columns concurrency,throughput; - is standard input"
    )
    parser.add_argument(
        "--method",
        choices=[method.value for method in FitMethod],
        default=FitMethod.BAYES.value,
        help="bayes: the peak with the least expected error, and its 90 %% interval (default); "
        "lsq: least squares on throughput; linearised: the white paper's parabola",
    )
    _add_load_options(parser)
    parser.add_argument(
        "--format", choices=["table", "json"], default="table", help="default: table"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw points, curve and peak into a .png or .svg file"
    )
    parser.set_defaults(run=run)


def _add_load_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name loads on the curve: concurrency, throughput or residence time."""
    for option, metavar, what, point in (
        ("--concurrency", "N", "concurrency (threads)", at_concurrency),
        ("--throughput", "X", "throughput (queries/s)", at_throughput),
        ("--residence-time", "DURATION", "mean residence time, as 20ms", at_residence_time),
    ):
        parse = duration_in_seconds if metavar == "DURATION" else _number
        parser.add_argument(
            option,
            dest="at",
            action="append",
            default=[],
            type=partial(_parse_load, option, parse, point),
            metavar=metavar,
            help=f"also print the law's values at this {what}; may be repeated",
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text[:30]!r} is not a number") from None


def _parse_load(
    option: str, parse: Callable[[str], float], point: Callable[[Usl, float], LawPoint], text: str
) -> RequestedPoint:
    try:
        value = parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not (value > 0 and isfinite(value)):
        raise argparse.ArgumentTypeError(f"must be above 0, not {text!r}")
    return RequestedPoint(f"{option[2:].replace('-', ' ')} {text}", lambda law: point(law, value))


def run(args: argparse.Namespace) -> int:
    """Read, fit, draw, print. Return 0, or 2 with one line on standard error."""
    if args.plot is not None and (problem := matplotlib_problem() or plot_path_problem(args.plot)):
        print_error(problem)
        return USAGE_ERROR
    curve = read_curve(args.file)
    fitted = fit(curve.n, curve.x, args.method)
    if args.plot is not None:
        _draw_plot(args.plot, curve, fitted)
    formats = {"table": format_fit, "json": as_json}
    print_lines(formats[args.format](curve, fitted, args.at))
    return 0


def as_json(curve: CurveFile, fitted: UslFit, asked: Sequence[RequestedPoint]) -> str:
    """Write the fit as JSON: null where something does not exist, the keys always the same."""
    answer = {
        "method": fitted.method.value,
        "sigma": fitted.law.sigma,
        "kappa": fitted.law.kappa,
        "lambda": fitted.law.lam,
        "n_max": fitted.n_max,
        "x_max": fitted.x_max,
        "n_max_interval": fitted.n_max_interval,
        "x_max_interval": fitted.x_max_interval,
        "confidence": fitted.confidence,
        "r_squared": fitted.r_squared,
        "points": fitted.points,
        "outliers": len(fitted.outliers),
        "outlier_lines": [curve.lines[i] for i in fitted.outliers],
        "trust": fitted.trust.value,
        "reasons": [reason.value for reason in fitted.reasons],
        "n_observed_max": fitted.n_observed_max,
        "x_observed_max": fitted.x_observed_max,
        "x_max_lower_bound": fitted.x_max_lower_bound,
        "settle_concurrency": fitted.settle_concurrency,
        "at": [
            {name: value if isfinite(value) else None for name, value in point._asdict().items()}
            for point in (load.point(fitted.law) for load in asked)
        ],
    }
    return json.dumps(answer, indent=2, allow_nan=False)


def _draw_plot(path: str, curve: CurveFile, fitted: UslFit) -> None:
    from agent.export.fit_plot import plot_fit

    try:
        plot_fit(path, curve, fitted)
    except OSError as error:
        raise unwritable_file_error(path, "the plot", error) from None
