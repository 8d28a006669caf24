"""TLS contexts: made once for all sessions, and again when the authority's file changes."""

import time
from pathlib import Path

import pytest
from web_clients import Authority

from collectors.base import CollectorError
from collectors.connection import Connection, Endpoint, Login
from collectors.transport import believing_anybody, secret_options

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
