"""The channel binding `tls-server-end-point` (RFC 5929): a hash of the server's certificate."""

import hashlib

from cryptography import x509

_WEAK_HASHES = ("md5", "sha1")  # RFC 5929 replaces them by SHA-256


def tls_server_end_point(certificate: bytes) -> bytes | None:
    """Hash a leaf certificate in DER form; None if its signature algorithm has no hash, such as Ed25519."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    if algorithm is None:
        return None
    name = "sha256" if algorithm.name in _WEAK_HASHES else algorithm.name
    return hashlib.new(name, certificate).digest()
