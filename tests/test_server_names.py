"""Servers that other labels than `instance` name: `--by` of the commands on a Prometheus."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from error_lines import one_line
from prometheus_server import Sample, exported, fill, serving
from recordings import Row, nearly, rows, written

from agent.cli import main

START = 1_790_000_000
"""The Unix time at which the known history begins."""
LENGTH, STEP = 3600, 15
SPAN = ("--since", "1h", "--until", str(START + LENGTH))
PMM = ("--by", "service_name", "--join", "node_name")
Json = dict[str, Any]


def table() -> list[Row]:
    """An hour of a server, a sample each 15 s."""
    return list(rows(LENGTH, step=STEP, start=START))


def of_host(labels: Mapping[str, str], share: float = 1.0) -> Iterator[Sample]:
    """The CPU of a host, of which this share of the known one is in use."""
    used = (row | {"host_cpu_busy_s": share * float(row["host_cpu_busy_s"])} for row in table())
    named = exported(used, {"mode": ""}, labels)
    return (sample for sample in named if sample[0].startswith("node"))


def monitored() -> Iterator[Sample]:
    """A PMM: `instance` is an agent's, and that of the server `orders` has been added again."""
    half = len(table()) // 2
    for agent, part in (("/agent_id/1", table()[:half]), ("/agent_id/2", table()[half:])):
        yield from exported(
            part, {"instance": agent, "service_name": "orders", "node_name": "node1"}
        )
    stock = {"instance": "/agent_id/3", "service_name": "stock", "node_name": "node1"}
    yield from exported(table()[half:], stock)
    yield from of_host({"instance": "/agent_id/4", "node_name": "node1"})
    yield from exported(table(), {"instance": "db9:9104"})


def of_two_sites() -> Iterator[Sample]:
    """An exporter:9104 and a host exporter:9100 at each of two sites; and one at a third."""
    for site, share in (("a", 1.0), ("b", 0.5)):
        behind = 0.0 if site == "a" else 5000.0
        younger = [row | {"uptime_s": float(row["uptime_s"]) - behind} for row in table()]
        yield from exported(younger, {"instance": "exporter:9104", "site": site})
        for name, labels, at, value in of_host(
            {"instance": "exporter:9100", "site": site}, share=share
        ):
            yield name, labels, at, value + behind
    yield from exported(table(), {"instance": "exporter:9104", "site": "c"})


def in_pods() -> Iterator[Sample]:
    """A server in a pod with its exporter; the exporter of its node is a pod of its own."""
    pod = {"instance": "10.1.0.7:9104", "namespace": "shop", "pod": "mysql-0", "node": "n1"}
    yield from exported(table(), pod)
    daemon = {"instance": "10.2.0.1:9100", "namespace": "monitoring", "node": "n1"}
    yield from of_host({**daemon, "pod": "node-exporter-x"})


def analysed(
    capsys: pytest.CaptureFixture[str], url: str, *words: str
) -> tuple[int, dict[str, Json], str]:
    """The exit code, the targets by name, and the errors of `analyze`."""
    code = main(["analyze", "--prometheus", url, *SPAN, "--format", "json", *words])
    shown = capsys.readouterr()
    return code, {one["target"]: one for one in json.loads(shown.out)["targets"]}, shown.err


@pytest.fixture(scope="module")
def pmm(prometheus: str, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PMM's Prometheus."""
    with serving(prometheus, fill(tmp_path_factory.mktemp("pmm"), promtool, monitored())) as url:
        yield url


def test_a_service_of_pmm_is_one_server_with_the_host_of_its_node(
    pmm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever agent read it; a server without the label is left out."""
    code, found, error = analysed(capsys, pmm, *PMM)
    assert (code, list(found), error) == (0, ["orders", "stock"], "")
    assert len(found["orders"]["points"]) == pytest.approx(LENGTH / 30, abs=3)
    assert len(found["stock"]["points"]) == pytest.approx(LENGTH / 60, abs=3)
    assert all(one["load"]["utilisation"]["cpu"] > 0 for one in found.values())


def test_a_service_is_replayed_and_compared_by_its_name(
    pmm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Like its recording: `--target` is the name by the labels."""
    known = [{n: value for n, value in row.items() if n != "server_cpu_s"} for row in table()[1:]]
    file = str(written(tmp_path / "orders.csv", known))
    options = ("--interval", "30s", "--every", "1h", "--format", "json")
    served = (*PMM, *SPAN, "--target", "orders")
    lasts = []
    for source, words in ((pmm, served), (file, ("--sampling", str(STEP)))):
        assert main(["replay", source, *options, *words]) == 0
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        lasts.append(nearly({part: last[part] for part in ("load", "capacity", "points")}))
    assert lasts[0] == lasts[1]
    middle = START + LENGTH // 2
    periods = ("--before", f"{START}..{middle}", "--after", f"{middle}..{START + LENGTH}")
    words = (*PMM, "--target", "orders", "--interval", "30s", "--format", "json")
    assert main(["compare", pmm, *periods, *words]) == 0
    after = json.loads(capsys.readouterr().out)["after"]
    assert after["intervals"] == pytest.approx(LENGTH / 60, abs=2)
    assert "the servers are orders, stock" in one_line(
        capsys, main(["replay", pmm, *PMM, *SPAN, "--target", "/agent_id/1"])
    )


@pytest.mark.parametrize("command", ["replay", "compare"])
def test_the_help_of_target_mentions_a_prometheus(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its instance, or by the labels."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "in a Prometheus: its `instance`, or its name by the labels of --by" in shown


def test_a_history_is_filled_from_a_service(
    pmm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--instance` is its name by the labels; that of its host is found without."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "history: {path: history.db}\nfit: {interval: 30s}\n"
        "targets: [{name: shop, user: u, host: db1}]\n"
    )
    asked = ("backfill", "--prometheus", pmm, "--config.file", str(file), "--server", "s", *SPAN)
    assert main([*asked, *PMM, "--instance", "orders"]) == 0
    assert "intervals of 30s added from orders" in capsys.readouterr().out


def test_servers_of_one_instance_are_distinguished_by_site(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has the host of its own site, if there is one."""
    with serving(prometheus, fill(tmp_path, promtool, of_two_sites())) as url:
        _, found, error = analysed(capsys, url)
        assert found == {}
        assert "with --by instance,site, or choose one with --selector" in error
        code, found, error = analysed(capsys, url, "--by", "site, instance")
    assert code == 0
    assert list(found) == [f"{site}/exporter:9104" for site in "abc"]
    assert error.startswith("mysql-headroom: c/exporter:9104: no host matches 1 of 3 servers")
    used = [one["load"]["utilisation"].get("cpu", 0.0) for one in found.values()]
    assert used == [pytest.approx(2 * used[1]), pytest.approx(used[1]), 0.0]
    assert used[1] > 0


def test_a_pod_has_the_host_of_its_node(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though the node's exporter is in another pod and namespace."""
    with serving(prometheus, fill(tmp_path, promtool, in_pods())) as url:
        code, found, error = analysed(capsys, url, "--by", "namespace,pod", "--join", "node")
    assert (code, list(found), error) == (0, ["shop/mysql-0"], "")
    assert found["shop/mysql-0"]["load"]["utilisation"]["cpu"] > 0


def test_invalid_server_labels_are_one_line(
    pmm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An invalid label, a label without series, and labels for a file."""
    asked = ("analyze", "--prometheus", pmm, *SPAN, "--by")
    with pytest.raises(SystemExit):
        main([*asked, "site,in stance"])
    assert "'in stance' is not the name of a label" in capsys.readouterr().err
    assert main([*asked, "site"]) == 1
    assert "check --selector, --by, --since" in capsys.readouterr().err
    file = written(tmp_path / "orders.csv", table())
    assert main(["replay", str(file), "--by", "site"]) == 2
    assert "--by" in one_line(capsys, 2)
