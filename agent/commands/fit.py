"""`mysql-headroom fit FILE.csv`: fit the law to a file and say where the peak is."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from agent.commands.plot_option import without_matplotlib
from agent.csv_input.curve_file import CurveFile, read_curve
from agent.csv_input.table_file import TableFileError
from agent.export.fit_report import in_words
from agent.support.escaping import complain_of, say
from models.usl.fit import Method, UslFit, fit

PLOT_FORMATS = (".png", ".svg")
USAGE_ERROR = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "fit",
        help="fit the Universal Scalability Law to a CSV file",
        description="Fit the Universal Scalability Law to concurrency (threads) and throughput "
        "(queries/s), and say where the peak is and how sure that is.",
    )
    parser.add_argument(
        "file", metavar="FILE.csv", help="columns concurrency,throughput; - is standard input"
    )
    parser.add_argument(
        "--method",
        choices=[method.value for method in Method],
        default=Method.BAYES.value,
        help="bayes: the peak with the least expected error, and its 90%% interval (default); "
        "lsq: least squares on throughput; linearised: the white paper's parabola",
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw points, curve and peak into a .png or .svg file"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, fit, draw, print. Return 0, or 2 with one line on standard error."""
    if args.plot is not None and (problem := without_matplotlib()):
        complain_of(problem)
        return USAGE_ERROR
    if args.plot is not None:
        _check_plot_format(args.plot)
    curve = read_curve(args.file)
    fitted = fit(curve.n, curve.x, args.method)
    if args.plot is not None:
        _draw(args.plot, curve, fitted)
    formats: dict[str, Callable[[CurveFile, UslFit], str]] = {"table": in_words, "json": as_json}
    say(formats[args.format](curve, fitted))
    return 0


def as_json(curve: CurveFile, fitted: UslFit) -> str:
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
    }
    return json.dumps(answer, indent=2, allow_nan=False)


def _check_plot_format(path: str) -> None:
    if Path(path).suffix.lower() not in PLOT_FORMATS:
        problem = "a plot is written as PNG or SVG"
        raise TableFileError(path, None, problem, "end its name in .png or .svg")


def _draw(path: str, curve: CurveFile, fitted: UslFit) -> None:
    from agent.export.fit_plot import plot_fit

    try:
        plot_fit(path, curve, fitted)
    except OSError as error:
        problem = f"the plot cannot be written ({error.strerror or error})"
        remedy = "name a file in a directory that exists and can be written to"
        raise TableFileError(path, None, problem, remedy) from None
