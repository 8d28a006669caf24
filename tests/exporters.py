"""Prometheus' own exporters as real programs on loopback, each while its block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.demo.private_server import PrivateServer
from testbed.real.daemon import running
from testbed.real.server_account import Account
from testbed.real.server_programs import CACHE, program


@contextmanager
def node_exporter(port: int, *options: str) -> Iterator[None]:
    """Run the host's exporter."""
    path = program("prometheus-node-exporter", last=CACHE / "node-exporter/usr/bin")
    with running(path, f"--web.listen-address=127.0.0.1:{port}", *options):
        yield


@contextmanager
def mysqld_exporter(port: int, server: PrivateServer, account: Account) -> Iterator[None]:
    """The server's exporter, with the statements' time.

    Less `slave_status`, a statement that MySQL 9 no longer knows.
    """
    path = program("prometheus-mysqld-exporter", last=CACHE / "mysqld-exporter/usr/bin")
    words = [path, f"--web.listen-address=127.0.0.1:{port}", "--no-collect.slave_status"]
    words += ["--collect.perf_schema.eventsstatementssum"]
    source = f"{account.user}:{account.password}@tcp(127.0.0.1:{server.port})/"
    with running(*words, DATA_SOURCE_NAME=source):
        yield
