"""The daemon as a process: start, reloads by signal or HTTP request, orderly shutdown."""

import logging
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from agent import __version__
from agent.config.settings import Config
from agent.history.history_file import history_path
from agent.history.store import Store
from agent.service.daemon import Agent
from agent.service.main_loop import MainLoop
from agent.service.reload import Reloader
from agent.service.systemd_notify import Notifier
from agent.support.logs import fields, set_up_logging
from agent.support.memory_tuning import freeze_imported_objects
from agent.web.http_listener import WebServer
from agent.web.reloading_config import LoadedWebConfig

log = logging.getLogger(__name__)

LISTEN_REMEDY = "choose another with `listen` or --web.listen-address HOST:PORT"


def run(
    config: Config,
    load: Callable[[], Config],
    *,
    lifecycle: bool,
    web: Callable[[], LoadedWebConfig],
    hosts: Sequence[str],
) -> int:
    """Run the agent until SIGTERM or SIGINT; return the exit code.

    SIGHUP, and with `lifecycle` a POST request too, reloads the configuration with `load`. `hosts`
    are further host names that HTTP requests may use.
    """
    freeze_imported_objects()
    _raise_limit_of_open_files()
    path = history_path(config.history.path, os.environ)
    agent = Agent(config, Store(path, config.history) if path else None)
    reloader = Reloader(config, load, partial(_apply, agent))
    main_loop = MainLoop(agent.workers, agent.snapshots, reloader.reload, Notifier())
    main_loop.listen_to_signals()
    try:
        server = agent.listen(
            config.address,
            reload_state=lambda: reloader.state,
            web=web,
            reload=main_loop.request_reload if lifecycle else None,
            hosts=hosts,
        )
    except OSError as error:
        reason = error.strerror or error
        log.error("cannot listen on %s: %s; %s", config.listen, reason, LISTEN_REMEDY)
        return 1
    facts = fields(version=__version__, listen=config.listen, targets=len(config.targets))
    log.info("started", extra=facts)
    _run_until_stopped(agent, main_loop, server)
    log.info("stopped")
    return 0


def _run_until_stopped(agent: Agent, main_loop: MainLoop, server: WebServer) -> None:
    """Run the workers and the main loop until a signal ends it; then stop everything in order."""
    main_loop.watch_loop(server)
    agent.start()
    main_loop.run()
    agent.stop()
    server.shutdown()
    server.server_close()


def _raise_limit_of_open_files() -> None:
    """Raise this process's limit to what the system allows it: each session takes one.

    Shells and systemd begin with 1,024, for programs that use select(2).
    """
    with suppress(OSError, ValueError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _apply(agent: Agent, config: Config) -> None:
    agent.apply(config)
    set_up_logging(config.log.level, config.log.format)
