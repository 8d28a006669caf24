"""What the tests of the web pages share: a server, clients, certificates of their own."""

import datetime as dt
import http.client
import ipaddress
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import bcrypt
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from prometheus_client import CollectorRegistry

from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.export.snapshot_metrics import SnapshotCollector
from agent.web import application
from agent.web.compare_requests import CompareAround
from agent.web.http_listener import WebServer
from agent.web.reloading_config import LoadedWebConfig

NOW = 1_700_000_000.0
SOON = 20.0  # seconds; what should be at once has happened by then, whatever else runs here
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
Answer = tuple[int, dict[str, str], str]


def snapshot(up: bool | None) -> Snapshot:
    """Return a snapshot of a target of which only is known whether it is up."""
    return Snapshot("db<1>", NOW, 60.0, Health(up=up), None, AssessmentState(waiting="no load yet"))


@contextmanager
def listening(
    *snapshots: Snapshot,
    settings: Callable[[], LoadedWebConfig] = LoadedWebConfig,
    reload: application.Reload | None = None,
    hosts: Sequence[str] = (),
    mark: Callable[[Marker], None] | None = None,
    markers: Sequence[Marker] = (),
    compare: CompareAround | None = None,
) -> Iterator[WebServer]:
    """Run the web server on a free port for those snapshots."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: snapshots, lambda: NOW))
    pages = application.Pages(
        registry,
        lambda: snapshots,
        lambda: NOW,
        reload,
        mark,
        markers=lambda: markers,
        compare=compare,
    )
    server = application.serve_in_background(("127.0.0.1", 0), pages, settings, hosts)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def ask(
    port: int,
    path: str = "/-/healthy",
    method: str = "GET",
    *,
    tls: ssl.SSLContext | None = None,
    source: str = "127.0.0.1",
    **headers: str,
) -> Answer:
    """Return status, headers and body of one response."""
    where = (source, 0)
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=SOON, source_address=where)
        if tls is None
        else http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=SOON, source_address=where, context=tls
        )
    )
    with closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def eventually(question: Callable[[], object]) -> bool:
    """Wait for the answer to become true within the time limit."""
    deadline = time.monotonic() + SOON
    while not (found := question()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(found)


def password_hash(password: str) -> str:
    """Return a bcrypt hash of the lowest cost, the same in every run."""
    return bcrypt.hashpw(password.encode(), b"$2b$04$" + b"abcdefghijklmnopqrstu" + b"u").decode()


def written(folder: Path, **sections: object) -> Path:
    """Write a web configuration with those sections, atomically."""
    path = folder / "web.yml"
    new = folder / "web.yml.new"
    new.write_text(yaml.safe_dump(sections))
    return new.replace(path)


def saying(folder: Path, text: str) -> Path:
    """Write a web configuration with that text."""
    path = folder / "web.yml"
    path.write_text(text)
    return path


class Authority:
    """Signs certificates into a folder: NAME.crt and NAME.key; its own is ca.crt."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.crt"
        own = self._builder(self._name, self._key, 1).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._write(own, self.file)

    def issue(
        self,
        name: str,
        *sans: str,
        days: int = 1,
        usage: x509.ObjectIdentifier | None = None,
    ) -> tuple[Path, Path]:
        """Issue a certificate and its key; with `days` below zero it has expired that long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key, days)
        names = [_general_name(san) for san in sans]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        certificate, key_file = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        self._write(builder, certificate)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, key_file

    def client(self, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Return a client context that trusts this authority, with that certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
        )

    def _write(self, builder: x509.CertificateBuilder, path: Path) -> None:
        signed = builder.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _general_name(san: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(san))
    except ValueError:
        pass
    if "://" in san:
        return x509.UniformResourceIdentifier(san)
    return x509.RFC822Name(san) if "@" in san else x509.DNSName(san)
