"""TLS as clients meet it: one certificate for all hosts, and what SCRAM binds to.

The file is looked at again and again; connections that are open keep what they began with.
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
    """Remembers the host that the client called."""

    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    ssl_context: ssl.SSLContext
    channel_binding: bytes | None  # tls-server-end-point; None: this certificate has none


class CertificateReloader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _file_identity(path)
        self.current = _load_certificate(path)

    def reload_if_changed(self) -> bool:
        """Whether there is another now; one that cannot be used leaves us with the one before."""
        seen = _file_identity(self._path)
        if seen == self._seen:
            return False
        self.current = _load_certificate(self._path)
        self._seen = seen
        return True


def _load_certificate(path: Path) -> ServerCertificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0  # nobody resumes, and each costs a message
    context.set_alpn_protocols([ALPN])
    context.sslsocket_class = SniSocket
    context.sni_callback = _store_server_name  # type: ignore[assignment]
    try:
        context.load_cert_chain(path)
        leaf = x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError) as error:
        raise Unavailable(f"The certificate {path} cannot be used: {error}.") from error
    return ServerCertificate(context, tls_server_end_point(leaf))


def _store_server_name(sock: SniSocket, called: str | None, _context: ssl.SSLContext) -> None:
    sock.server_name = called


def _file_identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Unavailable(f"The certificate {path} cannot be read: {error.strerror}.") from error
    return found.st_ino, found.st_mtime_ns, found.st_size
