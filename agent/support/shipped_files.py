"""Files that a host needs besides the program: from the wheel, or from the checkout."""

from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
IN_WHEEL = PACKAGE / "share"
"""Their folder in the wheel; pyproject.toml puts them there (`force-include`)."""


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """One file: where it is in a checkout, and what it is for."""

    source: str
    purpose: str

    @property
    def name(self) -> str:
        """The name under which the file is written; it is unique."""
        return Path(self.source).name

    @property
    def path(self) -> Path:
        """The file to read: of the wheel, or of the checkout."""
        in_wheel = IN_WHEEL / self.name
        return in_wheel if in_wheel.exists() else PACKAGE.parent / self.source

    def text(self) -> str:
        """Read the file; raises OSError where the installation lacks it."""
        return self.path.read_text(encoding="utf-8")


HOST_FILES = (
    ShippedFile("deploy/debian/config.yaml", "a first configuration: one server on this host"),
    ShippedFile("config.example.yaml", "every key of the configuration"),
    ShippedFile("docs/examples/web-config.yml", "TLS and users of the web pages"),
    ShippedFile("deploy/grants.sql", "what the account may read on the server"),
    ShippedFile("deploy/systemd/mysql-headroom.service", "the systemd unit"),
    ShippedFile("deploy/systemd/web.conf", "drop-in: web pages with TLS and users"),
    ShippedFile("deploy/systemd/host-process-io.conf", "drop-in: reads and writes of the server"),
    ShippedFile("deploy/prometheus/mysql-headroom.rules.yml", "alerts for Prometheus"),
    ShippedFile("deploy/prometheus/mysql-headroom.fleet.rules.yml", "sums over many agents"),
    ShippedFile("deploy/prometheus/scrape.example.yml", "how Prometheus scrapes the agent"),
    ShippedFile("deploy/grafana/mysql-headroom.dashboard.json", "Grafana dashboard of a server"),
    ShippedFile(
        "deploy/grafana/mysql-headroom.fleet.dashboard.json", "Grafana dashboard of all servers"
    ),
    ShippedFile(
        "docs/examples/record-samples.sh", "records samples for `replay`, without an agent"
    ),
)
