"""A pair of Prometheus that scrape one exporter into one store: `analyze` sees one server."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from contended_work import ContendedLoad
from exporters import mysqld_exporter
from prometheus_server import serving

from agent.cli import main
from agent.demo.private_server import PrivateServer, free_port
from agent.prometheus.client import Client
from agent.prometheus.exporters import SERVER_ID
from agent.support.http_client import Access
from testbed.real.daemon import wait_until
from testbed.real.server_account import least_account

NAME, REPLICAS = "db1:9104", ("a", "b")
CLIENTS, SECONDS, WIDTH = 4, 24, 4
"""How many statements run at once, for how long, and how wide intervals are; in s."""
NEAR = 0.1
"""Of each other are the throughputs of one run, which each Prometheus reads at its own times."""
LATE = 60.0  # seconds until the store has what was scraped, at most
Json = dict[str, Any]


@contextmanager
def stored(prometheus: str, folder: Path, port: int) -> Iterator[tuple[str, str]]:
    """A store, to which a pair of Prometheus write what they scrape; its URL and that of one."""
    receiver = "--web.enable-remote-write-receiver"
    with ExitStack() as stack:
        (folder / "store").mkdir()
        store = stack.enter_context(serving(prometheus, folder / "store/data", options=[receiver]))
        scrapers = []
        for replica in REPLICAS:
            (folder / replica).mkdir()
            config = replica_config(replica, port, store)
            scraper = serving(prometheus, folder / replica / "data", config=config)
            scrapers.append(stack.enter_context(scraper))
        yield store, scrapers[0]


def replica_config(replica: str, port: int, store: str) -> Json:
    """A Prometheus of a pair: its label is on all that it writes."""
    rename = {"target_label": "instance", "replacement": NAME}
    job = {
        "job_name": "mysql",
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        "relabel_configs": [rename],
    }
    soon = {"batch_send_deadline": "1s"}
    return {
        "global": {
            "scrape_interval": "2s",
            "scrape_timeout": "2s",
            "external_labels": {"replica": replica},
        },
        "scrape_configs": [job],
        "remote_write": [{"url": f"{store}/api/v1/write", "queue_config": soon}],
    }


def have_written(url: str, since: float) -> bool:
    """Return whether both replicas have written a sample of Questions after that time."""
    found = Client(Access(url)).instant_values("timestamp(mysql_global_status_questions)")
    return len(found) == len(REPLICAS) and min(found) > since


def scraped_under_load(server: PrivateServer, store: str) -> float:
    """Put the load on a server, until all is in the store; return when it ended, Unix seconds."""
    with ContendedLoad(server, CLIENTS) as load:
        load.set(CLIENTS)
        wait_until("both write", partial(have_written, store, 0.0), LATE)
        time.sleep(SECONDS)
        until = time.time()
        wait_until("all is written", partial(have_written, store, until), LATE)
        return until


def analysed(
    capsys: pytest.CaptureFixture[str], url: str, until: float
) -> tuple[int, list[Json], str]:
    """The exit code of `analyze`, the targets, and the errors."""
    period = ("--since", "60s", "--until", f"{until:.0f}", "--interval", f"{WIDTH}s")
    words = ("--prometheus", url, *period, "--no-hosts", "--format", "json")
    code = main(["analyze", *words])
    shown = capsys.readouterr()
    return code, json.loads(shown.out)["targets"], shown.err


def loaded(target: Json, until: float) -> list[float]:
    """The throughput of the intervals within the time of the load."""
    begin = until - SECONDS + 2 * WIDTH
    return [point["throughput"] for point in target["points"] if begin < point["at"] < until]


@pytest.mark.live
def test_a_pair_of_prometheus_that_scrape_one_exporter_is_one_server(
    mysql_server: PrivateServer,
    prometheus: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its throughput and intervals are those that one of them has seen alone."""
    port, account = free_port(), least_account(mysql_server)
    with (
        mysqld_exporter(port, mysql_server, account),
        stored(prometheus, tmp_path, port) as (store, scraper),
    ):
        until = scraped_under_load(mysql_server, store)
        code, (found,), error = analysed(capsys, store, until)
        _, (alone,), _ = analysed(capsys, scraper, until)
        server_ids = Client(Access(store)).instant_values(SERVER_ID)
    assert (code, error, found["target"]) == (0, "", NAME)
    seen, expected = loaded(found, until), loaded(alone, until)
    assert len(seen) == pytest.approx(len(expected), abs=2)
    assert fmean(seen) == pytest.approx(fmean(expected), rel=NEAR)
    assert len(server_ids) == len(REPLICAS)  # read too: the name is mysqld_exporter's
    assert found["concurrency_source"] == "statement_time"
