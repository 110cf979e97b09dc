"""Debian's archive keys, accepted only by the fingerprints below.

They come from the keyring of this machine, or else from the mirror's package `debian-archive-keyring`: where a key
comes from does not matter, because its fingerprint identifies it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pysequoia

from bough.engine.local.debian.errors import PackageError

# Primary keys, as published with the releases: archive, security archive and stable release.
FINGERPRINTS = frozenset(
    [
        "b8b80b5b623eab6ad8775c45b7c5d7d6350947f8",  # Debian 12 (bookworm)
        "05ab90340c0c5e797f44a8c8254cf3b5aec0a8f0",
        "4d64fec119c2029067d6e791f8d2585b8783d481",
        "04b54c3cdca79751b16bc6b5225629df75b188bd",  # Debian 13 (trixie)
        "5e04a1e3223a19a20706e20f9904613d4cce68c6",
        "41587f7db8c774bccf131416762f67a0b2c39de4",
    ]
)
KEYRING_PACKAGE = "debian-archive-keyring"
KEYRING_FOLDERS = ("usr/share/keyrings", "etc/apt/trusted.gpg.d")
_SUFFIXES = (".gpg", ".pgp", ".asc")
_MAX_KEYRING_BYTES = 1024**2


def read_certificates(root: Path = Path("/")) -> list[pysequoia.Cert]:
    """Return the accepted certificates in the keyrings below a folder."""
    return [
        certificate
        for folder in KEYRING_FOLDERS
        for path in sorted((root / folder).glob("debian-archive-*"))
        if path.suffix in _SUFFIXES
        for certificate in _read_keyring(path)
    ]


def _read_keyring(path: Path) -> Iterator[pysequoia.Cert]:
    with suppress(OSError, RuntimeError):  # unreadable, or no keyring
        with path.open("rb") as file:
            content = file.read(_MAX_KEYRING_BYTES)
        for certificate in pysequoia.Cert.split_bytes(content):
            if certificate.fingerprint.lower() in FINGERPRINTS:
                yield certificate


def verify_signature(signed: bytes, certificates: Iterable[pysequoia.Cert], name: str) -> bytes:
    """Return the text that a valid signature of one of the certificates covers."""
    accepted = list(certificates)
    try:
        verified = pysequoia.verify(bytes=signed, store=lambda _key_ids: accepted)
    except RuntimeError:
        verified = None
    if verified is None or verified.bytes is None or not _is_accepted(verified.valid_sigs):
        raise PackageError(
            f"The index {name} has no valid signature of Debian's archive keys, so it is not used. "
            "Set debian_mirror to another mirror, or update the package debian-archive-keyring, and try again."
        )
    return bytes(verified.bytes)


def _is_accepted(signatures: Iterable[Any]) -> bool:
    return any(each.certificate.lower() in FINGERPRINTS for each in signatures)
