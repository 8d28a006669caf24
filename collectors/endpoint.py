"""Where a server listens, and what protects a session with it on the network."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens: a socket file, or a host and a port with or without TLS."""

    host: str = "127.0.0.1"
    port: int = 3306
    socket: str | None = None
    tls_ca: str | None = None
    tls_verify_identity: bool = False
    tls_required: bool = False
    public_key: str | None = None
    """A file with the server's RSA key, for passwords where there is no TLS."""

    def __str__(self) -> str:
        """Return the path of the socket file, or host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.socket or f"{host}:{self.port}"
