"""The host of a server on another machine, by a real node_exporter."""

import json
import os
import time
from pathlib import Path
from statistics import fmean

import bcrypt
import pytest
from exporters import node_exporter
from msgspec import structs
from web_clients import SERVER, Authority

from agent.config.node_exporter import NodeExporterSettings
from agent.demo.private_server import PrivateServer, free_port
from agent.sampling.target_collectors import page_fetcher
from collectors.base import CollectorError, Values
from collectors.node_exporter import Fetch, parse_page
from testbed.real.clients import Clients
from testbed.real.daemon import Page, target, wait_until, watching
from testbed.real.server_account import least_account

NEAR = 0.15
"""By how much two readings of the host's CPU may differ: their seconds are not the same."""
INTERVALS = 4
UTILISATION = "resource_utilisation_ratio"
FIT = {"interval": "3s"}


def reads(page: Page, name: str) -> bool:
    """Say whether the host could be read."""
    return page.get("collector_success", target=name, collector="host") == 1.0


def cpu(page: Page, name: str) -> float | None:
    """How busy the host's CPU was in the latest interval."""
    return page.get(UTILISATION, target=name, resource="cpu")


def disks(page: Page, name: str) -> set[str]:
    """The disks whose use is known."""
    labels = [dict(labels) for _, labels in page.samples]
    found = {each.get("resource", "") for each in labels if each.get("target") == name}
    return {resource for resource in found if resource.startswith("disk:")}


@pytest.mark.live
def test_node_exporter_agrees_with_this_hosts_counters(
    mariadb_server: PrivateServer, tmp_path: Path
) -> None:
    """CPU and disks; without it the server is watched on, and with it again the host too."""
    port = free_port()
    account = least_account(mariadb_server)
    local = target(tmp_path, mariadb_server, account, name="local")
    remote = target(tmp_path, mariadb_server, account, name="remote")
    remote |= {"node_exporter": {"url": f"http://127.0.0.1:{port}"}}
    with watching(tmp_path, local, remote, fit=FIT) as agent:
        work = Clients(mariadb_server, "DO BENCHMARK(1000000, 1 + 1)", pace=0.1)
        with work, node_exporter(port):
            wait_until("its CPU is known", lambda: cpu(agent.page, "remote") is not None, 60)
            begun = time.monotonic()

            def seen(name: str) -> list[float]:
                return agent.seen(UTILISATION, since=begun, target=name, resource="cpu")

            wait_until("enough intervals", lambda: len(set(seen("remote"))) >= INTERVALS, 60)
            assert fmean(seen("remote")) == pytest.approx(fmean(seen("local")), abs=NEAR)
            assert disks(agent.page, "remote") == disks(agent.page, "local")
        wait_until("it is gone", lambda: not reads(agent.page, "remote"), 60)
        assert agent.page.get("up", target="remote") == 1.0
        assert reads(agent.page, "local")
        with node_exporter(port):
            wait_until("it is back", lambda: reads(agent.page, "remote"), 60)


@pytest.mark.live
def test_it_is_reached_over_tls_with_a_password(tmp_path: Path) -> None:
    """Without its authority, or with a wrong password, one line says what is wrong."""
    port, authority = free_port(), Authority(tmp_path)
    certificate, key = authority.issue("host", "127.0.0.1", usage=SERVER)
    web, password = tmp_path / "web.yml", tmp_path / "password"
    users = {"agent": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
    files = {"cert_file": str(certificate), "key_file": str(key)}
    web.write_text(json.dumps({"tls_server_config": files, "basic_auth_users": users}))
    password.write_text("secret\n")
    url = f"https://127.0.0.1:{port}"
    trusting = NodeExporterSettings(
        url=url, user="agent", password_file=password, ca=authority.file
    )
    with node_exporter(port, f"--web.config.file={web}"):
        wait_until("it listens", lambda: answers(trusting), 20)
        assert parse_page(page_fetcher(trusting)())["cpus"] == os.cpu_count()
        unknown = structs.replace(trusting, ca=None)
        with pytest.raises(CollectorError, match="give its CA certificate with ca"):
            page_fetcher(unknown)()
        password.write_text("wrong\n")
        with pytest.raises(CollectorError, match="login refused"):
            page_fetcher(trusting)()


@pytest.mark.live
def test_a_disabled_node_collector_is_missing_alone() -> None:
    """It refuses a page with a disabled collector; the others are read."""
    port = free_port()
    fetch = page_fetcher(NodeExporterSettings(url=f"http://127.0.0.1:{port}"))
    with node_exporter(port, "--no-collector.netclass"):
        found = wait_until("it listens", lambda: page(fetch), 20)
        assert found is not None
        assert found["cpus"] == os.cpu_count()
        assert parse_page(fetch())["cpus"] == os.cpu_count()


def page(fetch: Fetch) -> Values | None:
    """Return what it tells; None while nobody listens there."""
    try:
        return parse_page(fetch())
    except CollectorError as error:
        if "no answer" in str(error):
            return None
        raise


def answers(settings: NodeExporterSettings) -> bool:
    """Whether it lets the agent in."""
    try:
        return bool(page_fetcher(settings)())
    except CollectorError:
        return False
