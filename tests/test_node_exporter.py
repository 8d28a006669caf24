"""A server's host on another machine: what its node_exporter says becomes the host's counters."""

import http.server
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from web_clients import Authority

from agent.cli import main
from agent.config.base_model import InvalidValuesError
from agent.config.node_exporter import NodeExporterSettings
from agent.config.settings import Config
from agent.sampling.scheduled_collector import ScheduledCollector
from agent.sampling.target_collectors import collectors_of, page_fetcher
from agent.window.resource_utilisation import utilisations_and_rates
from agent.window.sample_columns import SampleColumns
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Sample
from collectors.connection import Connection, Login
from collectors.device_selection import MAX_DISKS, Devices
from collectors.endpoint import Endpoint
from collectors.node_exporter import CPU, DISK_COUNTERS, parse_page, prepare
from testbed.attacks.lying_server import LyingServer

PAGE = b"""# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="user"} 10
node_cpu_seconds_total{cpu="1",mode="user"} 20.5
node_cpu_seconds_total{cpu="0",mode="idle"} 100
node_cpu_seconds_total{cpu="1",mode="idle"} 200
# TYPE node_cpu_guest_seconds_total counter
node_cpu_guest_seconds_total{cpu="0",mode="user"} 5
# TYPE node_disk_reads_completed_total counter
node_disk_reads_completed_total{device="vda"} 7.5e+06
node_disk_reads_completed_total{device="dm-0"} 7.5e+06
# TYPE node_disk_io_time_seconds_total counter
node_disk_io_time_seconds_total{device="vda"} 1762.588
# TYPE node_disk_reads_merged_total counter
node_disk_reads_merged_total{device="vda"} 306735
# TYPE node_disk_read_time_seconds_total counter
node_disk_read_time_seconds_total{device="vda"} 911.5
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="eth0"} 1000
node_network_receive_bytes_total{device="docker0"} 5000
# TYPE node_network_speed_bytes gauge
node_network_speed_bytes{device="eth0"} 1.25e+08
node_network_speed_bytes{device="wlan0"} -125000
"""


def test_the_counters_have_the_names_of_the_host_collector() -> None:
    """CPUs are summed; volumes, bridges and unknown speeds are left out."""
    assert parse_page(PAGE) == {
        "cpu_user_seconds": 30.5,
        "cpu_idle_seconds": 300.0,
        "cpus": 2.0,
        "disk:vda:reads": 7.5e6,
        "disk:vda:busy_seconds": 1762.588,
        "disk:vda:merged_reads": 306735.0,
        "disk:vda:read_seconds": 911.5,
        "network:eth0:received_bytes": 1000.0,
        "network:eth0:bytes_per_second": 1.25e8,
    }


@pytest.mark.parametrize(
    "device",
    ["br0", "eth0.100", "vmbr1", "bond0", "vnet3", "wg0", "lxc4f2", "eni04c", "azv1", "gke7"],
)
def test_an_interface_on_top_of_a_link_is_no_link(device: str) -> None:
    """Its bytes are those of the link, so it has no utilisation of its own."""
    lines = (
        f'node_network_receive_bytes_total{{device="{device}"}} 1000',
        f'node_network_speed_bytes{{device="{device}"}} 1.25e+06',
    )
    assert parse_page(PAGE + "\n".join((*lines, "")).encode()) == parse_page(PAGE)


@pytest.mark.parametrize("device", ["eth1", "enp3s0f1", "brocade0"])
def test_a_link_may_have_a_name_like_a_bridges(device: str) -> None:
    """Only digits follow `br` in a bridge's name."""
    line = f'node_network_receive_bytes_total{{device="{device}"}} 1000\n'
    assert f"network:{device}:received_bytes" in parse_page(PAGE + line.encode())


def test_an_invalid_counter_is_absent() -> None:
    """Also the sum of which it is a part, which would fall and rise again."""
    for before, missing in (
        (b'{cpu="1",mode="idle"} 200', "cpu_idle_seconds"),
        (b'receive_bytes_total{device="eth0"} 1000', "network:eth0:received_bytes"),
        (b'{device="vda"} 1762.588', "disk:vda:busy_seconds"),
    ):
        page = PAGE.replace(before, before.rpartition(b" ")[0] + b" NaN")
        assert page != PAGE
        assert parse_page(PAGE).keys() - parse_page(page).keys() == {missing}


def cpu_page(seconds: float, online: range) -> bytes:
    """Return the page of processors that are busy to 0.3, each since it was first online."""
    modes = (("user", 1e5 + 0.3 * seconds), ("idle", 9e5 + 0.7 * seconds))
    return "".join(
        f'{CPU}{{cpu="{cpu}",mode="{mode}"}} {value}\n' for cpu in online for mode, value in modes
    ).encode()


def test_a_cpu_that_comes_online_adds_no_earlier_time() -> None:
    """While it is offline it has no counter; then it has that of all the time before."""
    times = np.arange(0.0, 61.0, 5.0)
    online = [range(3) if 20 <= t < 40 else range(4) for t in times]
    pages = [parse_page(cpu_page(t, cpus)) for t, cpus in zip(times, online, strict=True)]
    host = [Sample("host", t, page) for t, page in zip(times.tolist(), pages, strict=True)]
    status = [Sample("status", t, {"uptime": 100 + t, "questions": t}) for t in times.tolist()]
    edges = np.arange(0.0, 61.0, 15.0)
    columns = {
        name: SampleColumns(found, edges, 16.0)
        for name, found in (("host", host), ("status", status))
    }
    used = utilisations_and_rates(columns, np.ones(4))["cpu"]
    assert used[[0, 3]] == pytest.approx([0.3, 0.3])
    assert np.isnan(used[[1, 2]]).all()


def test_of_many_disks_the_busiest_are_read() -> None:
    """A host with hundreds has fewer series."""
    lines = [f'node_disk_read_bytes_total{{device="sd{n}"}} {n}' for n in range(40)]
    values = parse_page(PAGE + "\n".join((*lines, "")).encode())
    disks = {name for name in values if name.endswith(":read_bytes")}
    assert disks == {f"disk:sd{n}:read_bytes" for n in range(40 - MAX_DISKS, 40)}


def test_a_device_with_a_configured_limit_is_read(tmp_path: Path) -> None:
    """As on the agent's own host: also a volume or a bond, and however many others are busier."""
    lines = [f'node_disk_read_bytes_total{{device="sd{n}"}} {n}' for n in range(40)]
    page = PAGE + "\n".join((*lines, "")).encode()
    with host(page.replace(b"docker0", b"bond0")) as url:
        target = {"name": "db", "user": "u", "node_exporter": {"url": url}}
        limits = {
            "disks": {"dm-0": {"operations": 1000}, "sd3": {"operations": 100}},
            "ceilings": {"network:bond0:sent": 0.5},
        }
        config = Config.validated({"targets": [target], "resources": limits})
        spec = next(s for s in collectors_of(config, config.targets[0]) if s.name == "host")
        prepared = spec.prepare(Connection(Endpoint(), lambda: Login("u"), timeout=1, limit=1))
        assert prepared.read is not None
        values = prepared.read()
    assert values["disk:dm-0:reads"] == 7.5e6
    assert values["disk:sd3:read_bytes"] == 3.0
    assert values["network:bond0:received_bytes"] == 5000.0
    read = [name for name in values if name.endswith(":read_bytes")]
    assert len(read) == MAX_DISKS + 1


def test_a_named_device_that_is_not_on_the_page_is_an_absent_feature(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As on the agent's own host, but only once the page was read; and again once it is there."""
    pages = [PAGE, PAGE, PAGE.replace(b"dm-0", b"dm-1")]
    named = Devices(frozenset({"vda", "dm-1"}), frozenset({"docker0"}))
    spec = CollectorSpec(
        "host", partial(prepare, fetch=lambda: pages.pop(0), named=named), 5, False
    )
    collector = ScheduledCollector("db", spec, 5.0)
    connection = Connection(Endpoint(), lambda: Login("u"), timeout=1, limit=1)
    collector.prepare(connection)
    assert [feature.name for feature in collector.features] == ["host_node_exporter"]
    for _ in range(2):
        collector.run(0.0)
        reason = "not on the page of its node_exporter: disk 'dm-1'"
        assert [f.reason for f in collector.features if not f.enabled] == [reason]
        collector.prepare(connection)  # as is done now and then while a feature is absent
        assert not collector.is_complete
    assert caplog.text.count(reason) == 1
    collector.run(0.0)
    assert collector.is_complete


def test_disks_and_links_being_read_are_kept() -> None:
    """Many that are equally busy would take turns; one that was removed makes room for another."""
    moved = {n: float(n < MAX_DISKS) for n in range(24)}

    def page() -> bytes:
        disks = [f'node_disk_read_bytes_total{{device="sd{n}"}} {b}' for n, b in moved.items()]
        links = [f'node_network_receive_bytes_total{{device="e{n}"}} {b}' for n, b in moved.items()]
        return PAGE[: PAGE.index(b"# TYPE node_disk")] + "\n".join((*disks, *links, "")).encode()

    read = prepare(Connection(Endpoint(), lambda: Login("u"), timeout=1, limit=1), page).read
    assert read is not None
    first = read().keys()
    moved.update(dict.fromkeys(range(4, 24), 2.0))
    assert read().keys() == first
    del moved[0]
    gone = {"disk:sd0:read_bytes", "network:e0:received_bytes"}
    assert first - read().keys() == gone
    assert len(read()) == len(first)


def test_the_links_of_a_host_with_thousands_of_disks_are_read() -> None:
    """As a storage network shows each path to a disk as one more; the page is in order of names."""
    disks = [f'{name}{{device="sd{n}"}} 1\n' for name in sorted(DISK_COUNTERS) for n in range(2500)]
    values = parse_page(
        b"".join(
            (
                PAGE[: PAGE.index(b"# TYPE node_disk_reads_completed")],
                "".join(disks).encode(),
                PAGE[PAGE.index(b"# TYPE node_network") :],
            )
        )
    )
    assert values["network:eth0:received_bytes"] == 1000.0


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b'node_disk_read_bytes_total{device="sda"} 2 1700000000000', "disk:sda:read_bytes", 2.0),
        (b'node_disk_read_bytes_total{x="}, \\" {",device="sda",} 2', "disk:sda:read_bytes", 2.0),
        (b'node_disk_read_bytes_total { device = "sda" } 2e+0 ', "disk:sda:read_bytes", 2.0),
    ],
    ids=["time", "braces and quotes", "spaces"],
)
def test_what_the_format_permits_is_read(line: bytes, name: str, value: float) -> None:
    """Also what node_exporter does not write: a proxy may write its page anew."""
    assert parse_page(PAGE + line + b"\n")[name] == value


@pytest.mark.parametrize(
    "page",
    [b"", b"<html>login</html>", b"\xff\xfe\x00", b"node_cpu_seconds_total{cpu=", PAGE[300:]],
    ids=["empty", "another page", "no text", "cut off", "without CPU time"],
)
def test_another_page_is_one_line(page: bytes) -> None:
    """A failure of a kind that does not end the server's session."""
    with pytest.raises(CollectorError) as caught:
        parse_page(page)
    assert caught.value.kind is FailureKind.UNREADABLE
    assert "\n" not in str(caught.value)


@contextmanager
def host(
    content: bytes = PAGE,
    code: int = 200,
    needs: str | None = None,
    pause: float = 0.0,
    tls: ssl.SSLContext | None = None,
    server: str = "made up",
    missing: int = 0,
) -> Iterator[str]:
    """Serve that answer on loopback, in pieces of a byte each where it is slow.

    `missing` bytes of it never come.
    """

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refused = needs is not None and self.headers.get("Authorization") != needs
            head = f"HTTP/1.0 {401 if refused else code} said\r\nServer: {server}\r\n"
            head += f"Content-Length: {len(content) + missing}\r\n\r\n"
            answer = head.encode() + content
            pieces = [answer[i : i + 1] for i in range(len(answer))] if pause else [answer]
            for piece in pieces:
                try:
                    self.wfile.write(piece)
                except OSError:
                    return
                time.sleep(pause)

        def log_message(self, *_: object) -> None:
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    if tls is not None:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.server_port}"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def test_it_logs_in_with_a_password_from_a_file(tmp_path: Path) -> None:
    """Read again each time; the path may be part of the URL or not."""
    password = tmp_path / "password"
    password.write_text("secret\n")
    with host(needs="Basic YWdlbnQ6c2VjcmV0") as url:
        settings = NodeExporterSettings(url=f"{url}/metrics", user="agent", password_file=password)
        fetch = page_fetcher(settings)
        assert fetch() == PAGE
        password.write_text("wrong")
        with pytest.raises(CollectorError, match=r"\(401\); check user with password_file, or"):
            fetch()
        with pytest.raises(CollectorError, match=r"\(401\); give user with password_file, or"):
            page_fetcher(NodeExporterSettings(url=url))()


def test_an_unverified_certificate_has_the_remedy_of_its_cause(tmp_path: Path) -> None:
    """No authority given, another one, another name, an expired one."""
    tls, authority = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Authority(tmp_path)
    tls.load_cert_chain(*authority.issue("host", "127.0.0.1"))
    other = Authority(tmp_path, "other")

    def problem(url: str, ca: Path | None) -> str:
        with pytest.raises(CollectorError, match="its certificate is not verified") as caught:
            page_fetcher(NodeExporterSettings(url=url, ca=ca))()
        return str(caught.value)

    with host(tls=tls) as url:
        assert problem(url, None).endswith("; give its CA certificate with ca")
        assert problem(url, other.file).endswith("; check ca")
        named = url.replace("127.0.0.1", "localhost")
        assert problem(named, authority.file).endswith(
            "use a name in the URL that the certificate has"
        )
        tls.load_cert_chain(*authority.issue("host", "127.0.0.1", days=-1))
        assert "has expired); renew it" in problem(url, authority.file)


def test_an_authority_may_be_replaced_while_running(tmp_path: Path) -> None:
    """Pages are fetched without a reload or a restart."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*Authority(tmp_path).issue("host", "127.0.0.1"))
    with host(tls=tls) as url:
        fetch = page_fetcher(NodeExporterSettings(url=url, ca=tmp_path / "ca.crt"))
        assert fetch() == PAGE
        tls.load_cert_chain(*Authority(tmp_path).issue("host", "127.0.0.1"))
        assert fetch() == PAGE


def test_the_systems_authorities_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all hosts together, also after a reload; they take 0.9 MiB."""
    loaded: list[int] = []
    load = ssl.SSLContext.load_default_certs

    def counting(context: ssl.SSLContext, *purpose: ssl.Purpose) -> None:
        loaded.append(1)
        load(context, *purpose)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", counting)
    with host() as url:
        for _ in range(3):
            fetch = page_fetcher(NodeExporterSettings.validated({"url": url}))
            assert fetch() == fetch() == PAGE
    assert len(loaded) <= 1


def test_each_failure_names_the_url_and_ends_no_session() -> None:
    """An error, an endless page, a part of one, and one whose bytes or headers arrive slowly."""
    cases = [
        ({"code": 500}, "HTTP status 500; check that a node_exporter answers"),
        ({"code": 302, "server": "s\r\nLocation: /login"}, "redirects to /login; give the URL"),
        ({"content": b"x" * (2**22 + 1)}, "the page is larger than 4 MiB"),
        ({"missing": 9}, r"no answer \(it ended 9 bytes early\); check the URL"),
        ({"content": b"x" * 1000, "pause": 0.05}, "timed out"),
        ({"server": "x" * 1000, "pause": 0.05}, "timed out"),
    ]
    for answer, problem in cases:
        with host(**answer) as url:  # type: ignore[arg-type]
            fetch = page_fetcher(NodeExporterSettings(url=url, timeout=0.5))
            begun = time.monotonic()
            with pytest.raises(CollectorError, match=problem) as caught:
                fetch()
            assert time.monotonic() - begun < 5
            assert str(caught.value).startswith(f"{url}/metrics: ")
            assert not caught.value.kind.ends_session
    with pytest.raises(CollectorError, match=r"no answer .*; check the URL"):
        page_fetcher(NodeExporterSettings(url=url))()


def test_the_whole_page_is_fetched_only_where_collectors_are_refused() -> None:
    """It is ten times as large. A server that expects TLS, say, refuses any page for a while."""
    asked, refused = list[str](), ["/metrics"]

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(400 if self.path.startswith(tuple(refused)) else 200)
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        fetch = page_fetcher(NodeExporterSettings(url=f"http://127.0.0.1:{server.server_port}"))
        with pytest.raises(CollectorError, match="HTTP status 400"):
            fetch()
        refused.clear()
        fetch()
        refused.append("/metrics?")
        fetch()
        fetch()
        server.shutdown()
    has_query = ["?" in path for path in asked]
    assert has_query == [True, False, True, True, False, False]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "db1:9100"}, "is not a URL; write http://HOST:9100"),
        ({"url": "me:se@cret@db1:9100"}, r"'\*\*\*@db1:9100' is not a URL"),
        ({"url": "http://me:secret@db1:9100"}, "a password does not belong in the URL"),
        ({"url": "http://db1", "password_file": Path(__file__)}, "name the user"),
        ({"url": "http://db1", "user": "a", "token_file": Path(__file__)}, "not both"),
        ({"url": "http://db1", "ca": Path(__file__)}, "no certificates"),
    ],
)
def test_an_invalid_section_is_refused_with_the_remedy(
    settings: dict[str, object], problem: str
) -> None:
    """At the start, not at the first reading."""
    with pytest.raises(InvalidValuesError, match=problem):
        NodeExporterSettings.validated(settings)


def test_check_reports_an_unreachable_node_exporter_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unread feature is not ok, and what is configured is no remedy."""
    with host() as url:
        pass
    with LyingServer() as server:
        target = {"name": "db", "user": "u", "port": server.port, "node_exporter": {"url": url}}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"targets": [target]}))
        assert main(["check", "--config.file", str(file)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "_cpu" not in line]
    said = [line for line in lines if any(word in line for word in ("host", "cpu", "exporter"))]
    [line] = said
    assert line.startswith(f"  missing  host: {url}/metrics: no answer")


def test_check_names_a_device_that_is_not_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to look at; the host is read without it."""
    with host() as url, LyingServer() as server:
        target = {"name": "db", "user": "u", "port": server.port, "node_exporter": {"url": url}}
        limits = {"disks": {"vdz": {"operations": 1000}}}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"targets": [target], "resources": limits}))
        assert main(["check", "--config.file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "  ok       host_node_exporter\n" in shown
    reason = "not on the page of its node_exporter: disk 'vdz'"
    assert f"  missing  host_named_devices: {reason}\n           remedy: use the names" in shown
