"""A certificate that the operator gives, by the settings `tls_certificate` and `tls_key`: is it fit to be used?"""

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
    pem: bytes  # key, leaf and chain in one text, so that one move replaces them all


def read_files(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """What stands in the two files now."""
    return _read(certificate, "tls_certificate"), _read(key, "tls_key")


def check_certificate(certificate: bytes, key: bytes, now: datetime) -> OperatorCertificate:
    """Raises the sentence that says why it cannot be used."""
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        raise PreconditionFailed("The file of the setting 'tls_certificate' holds no certificate in PEM.") from None
    leaf, private = chain[0], _private(key)
    if _public_text(private.public_key()) != _public_text(leaf.public_key()):
        raise PreconditionFailed(
            "The setting 'tls_key' names another key than that of the first certificate in 'tls_certificate'."
        )
    if leaf.not_valid_after_utc <= now:
        raise PreconditionFailed(
            f"The certificate of the setting 'tls_certificate' ended on {leaf.not_valid_after_utc:%Y-%m-%d}."
        )
    if leaf.signature_hash_algorithm is None:
        raise PreconditionFailed(
            "The certificate of the setting 'tls_certificate' is signed with Ed25519 or Ed448, with which clients "
            "cannot bind a channel; take one that is signed with ECDSA or RSA."
        )
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return OperatorCertificate(leaf, text + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain))


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PreconditionFailed(f"{path} (setting {setting!r}) cannot be read: {error.strerror}.") from None


def _private(key: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(key, password=None)
    except TypeError:
        raise PreconditionFailed("The key of the setting 'tls_key' has a passphrase; save it without one.") from None
    except ValueError:
        raise PreconditionFailed("The file of the setting 'tls_key' holds no private key in PEM.") from None


def _public_text(key: object) -> bytes:
    shown: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return shown
