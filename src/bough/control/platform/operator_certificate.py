"""Checks the operator's own certificate, configured with `tls_certificate` and `tls_key`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from bough.errors import PreconditionFailed


@dataclass(frozen=True, slots=True)
class OperatorCertificate:
    leaf: x509.Certificate
    pem: bytes  # key, leaf and chain in one file, so that one rename replaces them all


def read_files(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """Return the contents of the two files."""
    return _read(certificate, "tls_certificate"), _read(key, "tls_key")


def check_certificate(certificate: bytes, key: bytes, now: datetime) -> OperatorCertificate:
    """Raise PreconditionFailed if the certificate cannot be used."""
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        raise PreconditionFailed("The file of the setting 'tls_certificate' contains no PEM certificate.") from None
    leaf, private_key = chain[0], _load_private_key(key)
    if _public_der(private_key.public_key()) != _public_der(leaf.public_key()):
        raise PreconditionFailed(
            "The key of the setting 'tls_key' does not match the first certificate in 'tls_certificate'."
        )
    if leaf.not_valid_after_utc <= now:
        raise PreconditionFailed(
            f"The certificate of the setting 'tls_certificate' expired on {leaf.not_valid_after_utc:%Y-%m-%d}."
        )
    if leaf.signature_hash_algorithm is None:
        raise PreconditionFailed(
            "The certificate of the setting 'tls_certificate' is signed with Ed25519 or Ed448, which do not support "
            "channel binding. Use one that is signed with ECDSA or RSA."
        )
    key_pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return OperatorCertificate(
        leaf, key_pem + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)
    )


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PreconditionFailed(f"{path} (setting {setting!r}) cannot be read: {error.strerror}.") from None


def _load_private_key(key: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(key, password=None)
    except TypeError:
        raise PreconditionFailed("The key of the setting 'tls_key' has a passphrase. Save it without one.") from None
    except ValueError:
        raise PreconditionFailed("The file of the setting 'tls_key' contains no PEM private key.") from None


def _public_der(key: object) -> bytes:
    der: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return der
