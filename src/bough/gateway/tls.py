"""The TLS context for clients: one certificate for all hosts, and its channel binding for SCRAM.

The certificate is reloaded when its file changes. Open connections keep the one they started with.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bough.errors import Unavailable
from bough.gateway.auth.channel_binding import tls_server_end_point

ALPN = "postgresql"


class SniSocket(ssl.SSLSocket):
    """Stores the server name that the client sent (SNI)."""

    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    ssl_context: ssl.SSLContext
    channel_binding: bytes | None  # tls-server-end-point; None: the certificate does not support it


class CertificateReloader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = _file_identity(path)
        self.current = _load_certificate(path)

    def reload_if_changed(self) -> bool:
        """Whether a new certificate was loaded. If it cannot be loaded, the current one stays in use."""
        identity = _file_identity(self._path)
        if identity == self._identity:
            return False
        self.current = _load_certificate(self._path)
        self._identity = identity
        return True


def _load_certificate(path: Path) -> ServerCertificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    # Some versions of Python set this option; a client whose connection is lost would then look half-closed.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0  # clients do not resume sessions, and each ticket costs a message
    context.set_alpn_protocols([ALPN])
    context.sslsocket_class = SniSocket
    context.sni_callback = _store_server_name  # type: ignore[assignment]
    try:
        context.load_cert_chain(path)
        leaf = x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError) as error:
        raise Unavailable(f"The certificate {path} cannot be used: {error}.") from error
    return ServerCertificate(context, tls_server_end_point(leaf))


def _store_server_name(sock: SniSocket, server_name: str | None, _context: ssl.SSLContext) -> None:
    sock.server_name = server_name


def _file_identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Unavailable(f"The certificate {path} cannot be read: {error.strerror}.") from error
    return found.st_ino, found.st_mtime_ns, found.st_size
