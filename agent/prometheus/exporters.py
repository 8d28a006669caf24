"""The series of mysqld_exporter, node_exporter and RDS exporters, and the columns they give.

The names are those of mysqld_exporter 0.14 to 0.19 and node_exporter 0.16 to 1.9. Exporters of
Amazon RDS export the CPU of an instance as a utilisation, the mean of the time before each sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

QUESTIONS = "mysql_global_status_questions"
"""Exported by every mysqld_exporter: it identifies the targets."""
STATEMENT_TIME = "mysql_perf_schema_events_statements_sum_timer_wait"
"""In s, exported with --collect.perf_schema.eventsstatementssum."""
UPTIME = "mysql_global_status_uptime"
MYSQLD: Mapping[str, str] = {
    QUESTIONS: "questions",
    "mysql_global_status_threads_running": "threads_running",
    UPTIME: "uptime_s",
    "mysql_global_status_threads_connected": "threads_connected",
    "mysql_global_variables_max_connections": "max_connections",
    "mysql_global_status_innodb_log_writes": "redo_writes",
    "mysql_global_status_innodb_os_log_fsyncs": "redo_syncs",
    STATEMENT_TIME: "statement_time_s",
}
"""The columns of a recording that mysqld_exporter's metrics give."""
SERVER_ID = "mysql_global_variables_server_id"
"""Read to distinguish servers of one name: members of a replication have different ones."""
PORT = "mysql_global_variables_port"
BUSY_MODES = 'mode!~"idle|iowait|guest|guest_nice"'
"""Matches the modes in which a CPU is busy; guests' time is part of `user` already."""
IDLE_MODE = 'mode="idle"'
"""Matches one series for each CPU."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """A gauge of the CPU of a managed server's host, in per cent of all its processors."""

    metric: str
    identifier: str
    """The label with the instance's identifier, which its host name begins with."""
    matchers: tuple[str, ...] = ()


NODE_EXPORTER = "node_exporter"
SERVICES: Mapping[str, Utilisation] = {
    "cloudwatch_exporter": Utilisation("aws_rds_cpuutilization_average", "dbinstance_identifier"),
    "prometheus-rds-exporter": Utilisation("rds_cpu_usage_percent_average", "dbidentifier"),
    "rds_exporter": Utilisation("node_cpu_average", "instance", ('mode="total"',)),
    "yace": Utilisation("aws_rds_cpuutilization_average", "dimension_DBInstanceIdentifier"),
}
"""By the exporter's name: Prometheus', Qonto's, Percona's, and Yet Another CloudWatch Exporter."""


def selector(metric: str, *matchers: str) -> str:
    """Return the selector of a metric with these matchers; empty ones are left out."""
    return f"{metric}{{{','.join(m for m in matchers if m)}}}"


def matcher(label: str, value: str) -> str:
    """Return the matcher of a label that equals a value; any characters are escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}="{escaped}"'


def without_braces(text: str) -> str:
    """Strip the braces of a selector, which users write or leave out: `{job="mysql"}`."""
    return text.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
