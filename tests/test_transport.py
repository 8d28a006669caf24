"""TLS contexts: made once for all sessions, and again when the authority's file changes."""

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from web_clients import Authority

from collectors.base import CollectorError
from collectors.connection import Connection, Endpoint, Login
from collectors.transport_security import believing_anybody, secret_options

DOWN = Endpoint(port=1)  # a closed port
TRIES = 50
MOST = 0.010  # CPU seconds of one; to load all authorities took 0.033


def test_a_target_that_is_down_costs_little() -> None:
    """Fifty tries to connect load no certificates: each takes a few milliseconds of CPU at most."""
    connection = Connection(DOWN, lambda: Login("headroom", "Qz7"), timeout=1, limit=1)
    believing_anybody()
    begun = time.process_time()
    for _ in range(TRIES):
        with pytest.raises(CollectorError):
            connection.open()
    spent = (time.process_time() - begun) / TRIES
    print(f"{1000 * spent:.1f} ms of CPU for each try")
    assert spent < MOST


def test_an_authority_is_loaded_once_and_again_when_its_file_changes(tmp_path: Path) -> None:
    """All sessions share a context; one with another certificate in the file is another."""
    first, second = Authority(tmp_path), Authority(tmp_path, "second")
    file = tmp_path / "named.pem"
    file.write_bytes(first.file.read_bytes())
    endpoint = Endpoint(tls_ca=str(file), tls_required=True)
    context = secret_options(endpoint)["ssl"]
    assert secret_options(endpoint)["ssl"] is context
    file.unlink()
    file.write_bytes(second.file.read_bytes())
    renewed = secret_options(endpoint)["ssl"]
    assert renewed is not context
    assert renewed.get_ca_certs() != context.get_ca_certs()


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
EC_KEY = ec.generate_private_key(ec.SECP256R1()).public_key()
X509 = PublicFormat.SubjectPublicKeyInfo


@pytest.mark.parametrize("form", [X509, PublicFormat.PKCS1])
def test_a_public_key_in_either_form_is_taken(tmp_path: Path, form: PublicFormat) -> None:
    """As MySQL writes it, and as OpenSSL's older commands do."""
    file = tmp_path / "key.pem"
    file.write_bytes(RSA_KEY.public_bytes(Encoding.PEM, form))
    options = secret_options(Endpoint(public_key=str(file)))
    assert options["server_public_key"] == file.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"secret",
        b"-----BEGIN PUBLIC KEY-----\nA\n-----END PUBLIC KEY-----\n",
        RSA_KEY.public_bytes(Encoding.PEM, X509)[:200],
        RSA_KEY.public_bytes(Encoding.DER, X509),
        EC_KEY.public_bytes(Encoding.PEM, X509),
    ],
    ids=["empty", "a password", "no base64", "cut off", "DER", "another algorithm"],
)
def test_a_file_without_a_public_key_is_one_line(tmp_path: Path, content: bytes) -> None:
    """It names the option and the file, what is wrong and where the key is; it shows no content."""
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    with pytest.raises(CollectorError) as caught:
        secret_options(Endpoint(public_key=str(file)))
    assert str(caught.value) == (
        f"server_public_key: {file}: holds no RSA public key in PEM;"
        " copy public_key.pem of the server's data directory"
    )
