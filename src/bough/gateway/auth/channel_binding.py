"""What a client binds its proof to: `tls-server-end-point` (RFC 5929), a hash of the certificate it saw."""

import hashlib

from cryptography import x509

_TOO_WEAK = ("md5", "sha1")


def tls_server_end_point(certificate: bytes) -> bytes | None:
    """From the leaf in DER; None when its signature has no hash of its own (Ed25519), so nothing can be bound."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    if algorithm is None:
        return None
    name = "sha256" if algorithm.name in _TOO_WEAK else algorithm.name
    return hashlib.new(name, certificate).digest()
