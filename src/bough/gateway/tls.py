"""TLS as clients meet it: one certificate for all hosts, and what SCRAM binds to.

The file is looked at again and again; connections that are open keep what they began with.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bough.errors import Unavailable
from bough.gateway.auth.binding import end_point

ALPN = "postgresql"


class CalledSocket(ssl.SSLSocket):
    """Remembers the host that the client called."""

    called: str | None = None


@dataclass(frozen=True, slots=True)
class Doorplate:
    context: ssl.SSLContext
    binding: bytes | None  # tls-server-end-point; None: this certificate has none


class Certificates:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _mark(path)
        self.current = _doorplate(path)

    def refresh(self) -> bool:
        """Whether there is another now; one that cannot be used leaves us with the one before."""
        seen = _mark(self._path)
        if seen == self._seen:
            return False
        self.current = _doorplate(self._path)
        self._seen = seen
        return True


def _doorplate(path: Path) -> Doorplate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0  # nobody resumes, and each costs a message
    context.set_alpn_protocols([ALPN])
    context.sslsocket_class = CalledSocket
    context.sni_callback = _remember  # type: ignore[assignment]
    try:
        context.load_cert_chain(path)
        leaf = x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError) as error:
        raise Unavailable(f"The certificate {path} cannot be used: {error}.") from error
    return Doorplate(context, end_point(leaf))


def _remember(sock: CalledSocket, called: str | None, _context: ssl.SSLContext) -> None:
    sock.called = called


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Unavailable(f"The certificate {path} cannot be read: {error.strerror}.") from error
    return found.st_ino, found.st_mtime_ns, found.st_size
