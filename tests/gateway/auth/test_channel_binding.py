"""The channel binding is the hash that RFC 5929 defines, for every kind of certificate."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from bough.gateway.auth.channel_binding import tls_server_end_point

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _certificate(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, algorithm: object) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=NOW,
        not_valid_after=NOW + timedelta(days=1),
    )
    return builder.sign(key, algorithm).public_bytes(Encoding.DER)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["sha256", "sha384", "sha512"])
def test_it_is_the_hash_of_the_signature(name: str) -> None:
    der = _certificate(ec.generate_private_key(ec.SECP256R1()), getattr(hashes, name.upper())())
    assert tls_server_end_point(der) == hashlib.new(name, der).digest()


def test_a_weak_hash_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    der = _certificate(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    monkeypatch.setattr(x509, "load_der_x509_certificate", lambda _: _Signed(hashes.SHA1()))
    assert tls_server_end_point(der) == hashlib.sha256(der).digest()


def test_ed25519_cannot_be_bound_to() -> None:
    assert tls_server_end_point(_certificate(ed25519.Ed25519PrivateKey.generate(), None)) is None


class _Signed:
    """A certificate signed with SHA-1, which libraries no longer create."""

    def __init__(self, algorithm: hashes.HashAlgorithm) -> None:
        self.signature_hash_algorithm = algorithm
