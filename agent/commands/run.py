"""`mysql-headroom run`: watch the configured servers until stopped."""

import argparse
import re
from collections.abc import Callable
from functools import partial

from agent.commands.argument_types import listen_address
from agent.commands.config_file_options import add_file_options, load_files
from agent.config.loader import load_config
from agent.config.settings import Config
from agent.support.logs import FORMATS, LEVELS, set_up_logging
from agent.support.memory_tuning import keep_freed_memory, use_one_heap
from agent.web.reloading_config import LoadedWebConfig

HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    text = "watch the configured servers: sample, fit, serve /metrics and the page"
    parser = subparsers.add_parser("run", help=text, description=text.capitalize() + ".")
    add_file_options(parser)
    parser.add_argument(
        "--web.listen-address",
        dest="listen",
        metavar="HOST:PORT",
        type=listen_address,
        help="overrides the configuration file",
    )
    parser.add_argument(
        "--web.enable-lifecycle",
        dest="lifecycle",
        action="store_true",
        help="a POST or PUT to /-/reload loads the file again, as SIGHUP does",
    )
    parser.add_argument(
        "--web.allowed-host",
        dest="hosts",
        metavar="NAME",
        type=_host,
        action="append",
        default=[],
        help="a host name of the pages, may be repeated; if given, all others are refused",
    )
    parser.add_argument(
        "--log.level", dest="level", choices=LEVELS, help="overrides the configuration file"
    )
    parser.add_argument(
        "--log.format", dest="format", choices=FORMATS, help="overrides the configuration file"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 after an orderly end, 1 if the address is not available, 2 if a file is wrong."""
    load = partial(load_config, args.config_file, override=_overrides(args))
    config, web = load_files(load, args.web_file)
    set_up_logging(config.log.level, config.log.format)
    use_one_heap()
    keep_freed_memory()
    return _run_daemon(config, load, web, lifecycle=args.lifecycle, hosts=args.hosts)


def _host(text: str) -> str:
    if not HOST_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a host name without a port")
    return text


def _overrides(args: argparse.Namespace) -> dict[str, object]:
    """Return the values of the command line that override those of the file."""
    log = {key: value for key in ("level", "format") if (value := getattr(args, key)) is not None}
    return ({"listen": args.listen} if args.listen else {}) | ({"log": log} if log else {})


def _run_daemon(
    config: Config,
    load: Callable[[], Config],
    web: Callable[[], LoadedWebConfig],
    *,
    lifecycle: bool,
    hosts: list[str],
) -> int:
    from agent.service.lifecycle import run as run_daemon

    return run_daemon(config, load, lifecycle=lifecycle, web=web, hosts=hosts)
