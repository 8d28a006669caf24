"""Where the server runs: its process is found here, and nothing is said of a host elsewhere."""

import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from collector_session import connected, endpoint_of
from conftest import ServerFactory

from agent.demo.private_server import Flavour, PrivateServer
from collectors import host, process_lookup
from collectors.base import CollectorError, FailureKind
from collectors.connection import Connection, Login
from collectors.device_selection import Devices
from collectors.endpoint import Endpoint
from collectors.process_lookup import ProcessNotFound, find_server_process
from testbed.real.clients import run_as_root
from testbed.real.daemon import is_root, target, wait_until, watching
from testbed.real.namespaces import IN_A_CONTAINER, other_host, server_inside
from testbed.real.server_account import least_account

CPU_BOUND = "SELECT BENCHMARK(20000000, 1 + 1)"
WORKED = 1.0
"""Seconds of a processor: more than the clocks of host and process differ by."""


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_the_servers_process_and_its_cpu_are_found(server: PrivateServer, way: str) -> None:
    """Over the socket and over TCP."""
    with connected(server, way) as connection:
        process = find_server_process(connection)
        assert isinstance(process, psutil.Process)
        assert process.pid == server.pid
        read = host.prepare(connection).read
        assert read
        began, before = cpu_seconds(process), read()
        while cpu_seconds(process) < began + WORKED:  # nothing is waited for between statements
            run_as_root(server, CPU_BOUND)
        after, worked = read(), cpu_seconds(process) - began
    risen = {name: after[name] - before[name] for name in before}
    assert risen["process_cpu_seconds"] == pytest.approx(worked, rel=0.2)
    used = risen["cpu_user_seconds"] + risen["cpu_nice_seconds"]
    assert used > worked / 2  # the tests may run with a lower priority


def cpu_seconds(process: psutil.Process) -> float:
    """The CPU time that a process has used, as the machine counts it."""
    return sum(process.cpu_times()[:2])


def test_the_end_of_the_servers_process_is_reported(
    private_server: ServerFactory, flavour: Flavour
) -> None:
    """Not that a file of /proc is missing, also where the process's reads and writes are seen."""
    server = private_server(flavour)
    with connected(server, "socket") as connection:
        read = host.prepare(connection).read
    assert read is not None
    pid = server.pid
    server.kill()
    with pytest.raises(CollectorError, match=f"the server's process {pid} has ended") as caught:
        read()
    assert caught.value.kind is FailureKind.LOST


def test_any_loopback_address_is_this_host(private_server: ServerFactory, flavour: Flavour) -> None:
    """On Debian a host's own name is 127.0.1.1, which no interface lists."""
    address = "127.0.1.1"
    found = private_server(flavour, options=[f"--bind-address={address}"])
    account = least_account(found)
    endpoint = Endpoint(host=address, port=found.port)
    login = Login(account.user, account.password)
    with closing(Connection(endpoint, lambda: login, timeout=5, limit=1)) as connection:
        connection.open()
        process = find_server_process(connection)
        assert isinstance(process, psutil.Process)
        assert process.pid == found.pid


def set_forward_by_a_day(patch: pytest.MonkeyPatch) -> None:
    """Have the server's start, by its uptime, be a day later than any process's here."""
    clock = SimpleNamespace(
        time=lambda: time.time() + 86_400.0, monotonic=time.monotonic, sleep=time.sleep
    )
    patch.setattr(process_lookup, "time", clock)


def test_the_process_is_found_after_a_clock_step(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TCP it is the one whose thread executes the session's statements."""
    with connected(server, "tcp") as connection:
        before = connection.statement_count
        set_forward_by_a_day(monkeypatch)
        process = find_server_process(connection)
        assert isinstance(process, psutil.Process)
        assert process.pid == server.pid
        assert connection.statement_count <= before + 10


def test_a_thread_of_the_same_id_elsewhere_is_not_the_sessions(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a server in another PID namespace: it does not run when the session does."""
    with connected(server, "tcp") as connection, connected(server, "tcp") as idle:
        theirs = process_lookup._session_thread(idle)
        monkeypatch.setattr(process_lookup, "_session_thread", lambda _: theirs)
        set_forward_by_a_day(monkeypatch)
        assert theirs is not None
        assert isinstance(find_server_process(connection), ProcessNotFound)


def test_without_access_to_threads_the_host_is_unknown_after_a_step(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on; MariaDB shows every account its own thread."""
    with closing(server.connect_as_root()) as root, root.cursor() as cursor:
        cursor.execute("CREATE USER IF NOT EXISTS 'stranger'@'%' IDENTIFIED BY 'Xy-1234-zz'")
    login = Login("stranger", "Xy-1234-zz")
    with closing(
        Connection(Endpoint(port=server.port), lambda: login, timeout=5, limit=5)
    ) as connection:
        connection.open()
        set_forward_by_a_day(monkeypatch)
        found = find_server_process(connection)
        assert isinstance(found, ProcessNotFound) == (server.flavour == "mysql")
        assert connection.is_open


def test_a_named_device_is_read(server: PrivateServer) -> None:
    """The loopback is virtual, and is read only if it is named."""
    with connected(server, "socket") as connection:
        unnamed = host.prepare(connection).read
        named = host.prepare(connection, Devices(interfaces=frozenset({"lo", "none0"}))).read
        assert unnamed
        assert named
        more = named().keys() - unnamed().keys()
    assert more == {"network:lo:received_bytes", "network:lo:sent_bytes"}


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
def test_a_server_on_another_host_has_no_host_metrics(
    flavour: Flavour, templates: Path, tmp_path: Path
) -> None:
    """Behind a network this machine's CPU is not the server's: the feature is absent, and why."""
    with ExitStack() as stack:
        other = stack.enter_context(other_host())
        anywhere = ("--bind-address=0.0.0.0",)
        netns = ("ip", "netns", "exec", other.name)
        server = stack.enter_context(server_inside(flavour, templates, *netns, options=anywhere))
        there = target(tmp_path, server, over=Endpoint(other.theirs, server.port))
        agent = stack.enter_context(watching(tmp_path, there))
        assert agent.get("feature_enabled", feature="host") == 0
        assert agent.get("up") == 1
        assert f"the server is on another host ({other.theirs})" in agent.log
        assert agent.get("collector_success", collector="host") is None


@pytest.mark.skipif(not is_root(), reason="only root makes PID namespaces")
@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_an_agent_in_its_own_container_has_no_host_metrics(
    server: PrivateServer, way: str, tmp_path: Path
) -> None:
    """It cannot see the server's process, and says that they are in two containers."""
    there = target(tmp_path, server, over=endpoint_of(server, way))
    with watching(tmp_path, there, prefix=IN_A_CONTAINER) as agent:
        assert agent.get("feature_enabled", feature="host") == 0
        assert agent.get("up") == 1
        assert "another container" in agent.log


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes PID namespaces")
def test_a_containerised_server_on_this_host_is_found(
    flavour: Flavour, templates: Path, tmp_path: Path
) -> None:
    """It is a process of this machine, whatever its PID is inside."""
    with server_inside(flavour, templates, *IN_A_CONTAINER) as server:
        there = target(tmp_path, server, over=endpoint_of(server, "socket"))
        with watching(tmp_path, there) as agent:
            assert agent.get("feature_enabled", feature="host") == 1
            wait_until("host", lambda: agent.get("collector_success", collector="host") == 1)
