"""A real Prometheus on this machine, filled with a known history by its own tools."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from recordings import Row

from agent.demo.private_server import free_port
from testbed.real.daemon import running, wait_until

Sample = tuple[str, Mapping[str, str], float, float]
"""Metric, labels, time and value."""
MYSQLD = {
    "mysql_global_status_questions": "questions",
    "mysql_global_status_threads_running": "threads_running",
    "mysql_global_status_uptime": "uptime_s",
    "mysql_global_variables_server_id": "server_id",
    "mysql_global_status_innodb_log_writes": "redo_writes",
    "mysql_global_status_innodb_os_log_fsyncs": "redo_syncs",
    "mysql_perf_schema_events_statements_sum_timer_wait": "statement_time_s",
}
"""mysqld_exporter's names, and ours."""
CPUS = 2
SCRAPES_NOTHING = {"global": {"scrape_interval": "15s"}}


def exported(
    table: Iterable[Row], mysqld: Mapping[str, str], node: Mapping[str, str] | None = None
) -> Iterator[Sample]:
    """Convert a recording to what the exporters would have exported, with their labels."""
    for row in table:
        at = float(row["t_s"])
        for name, column in MYSQLD.items():
            if column in row:
                yield name, mysqld, at, float(row[column])
        if node is not None:
            yield from _cpu(at, float(row["host_cpu_busy_s"]), node)


def _cpu(at: float, busy: float, labels: Mapping[str, str]) -> Iterator[Sample]:
    """Return a host's CPU time, nine tenths of it `user`, spread over its CPUs."""
    for cpu in range(CPUS):
        modes = {"user": 0.9 * busy / CPUS, "system": 0.1 * busy / CPUS, "idle": at % 1e6}
        modes["iowait"] = at % 1e5
        for mode, value in modes.items():
            of_cpu = {**labels, "cpu": str(cpu), "mode": mode}
            yield "node_cpu_seconds_total", of_cpu, at, value


def openmetrics(samples: Iterable[Sample]) -> Iterator[str]:
    """Format text for `promtool tsdb create-blocks-from openmetrics`, series by series."""
    series: dict[tuple[str, str], list[str]] = {}
    for name, labels, at, value in samples:
        shown = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        line = f"{name}{{{shown}}} {value!r} {at:.3f}\n"
        series.setdefault((name, shown), []).append(line)
    before = ""
    for name, shown in sorted(series):
        if name != before:
            yield f"# TYPE {name} unknown\n"
        before = name
        yield from series[name, shown]
    yield "# EOF\n"


def fill(folder: Path, promtool: str, samples: Iterable[Sample]) -> Path:
    """Create a database of these samples."""
    text, data = folder / "history.om", folder / "data"
    text.write_text("".join(openmetrics(samples)))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return data


@contextmanager
def serving(
    prometheus: str,
    data: Path,
    web: Mapping[str, Any] | None = None,
    scheme: str = "http",
    config: Mapping[str, Any] = SCRAPES_NOTHING,
    options: Sequence[str] = (),
) -> Iterator[str]:
    """Run a Prometheus on that database while the block lasts; yield its URL."""
    folder, port = data.parent, free_port()
    file, web_file = folder / "prometheus.yml", folder / "web.yml"
    file.write_text(yaml.safe_dump(dict(config)))
    web_file.write_text(yaml.safe_dump(dict(web or {})))
    with running(
        prometheus,
        f"--config.file={file}",
        f"--web.config.file={web_file}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=50y",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    ):
        url = f"http://127.0.0.1:{port}"
        wait_until("Prometheus answers", lambda: _answers(url), 60.0)
        yield url.replace("http", scheme, 1)


def _answers(url: str) -> bool:
    """Return whether it is ready; a refusal, or a TLS answer, counts too."""
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code in (400, 401)
    except OSError:
        return False
