"""The files of the gateway's certificate, kept as they should be: `tls/`, `ca.crt` and `keys/ca.key` in the home.

Each file is replaced in one move, and written in an order in which those already written are of use
to a later try: a kill at any moment leaves what the gateway can serve with.
"""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bough import log
from bough.config import Settings
from bough.control.platform import certificates, operator_certificate
from bough.control.platform.certificates import SignedCertificate
from bough.errors import PlatformError

EXPIRY_WARNING = timedelta(days=21)  # before the end of a certificate that we cannot renew ourselves

logger = log.get_logger(component="certificates")


@dataclass(frozen=True, slots=True)
class TlsPaths:
    folder: Path
    gateway: Path  # key, leaf, chain
    ca: Path
    ca_copy: Path  # for clients
    ca_key: Path

    @classmethod
    def of(cls, settings: Settings) -> "TlsPaths":
        folder = settings.tls
        return cls(folder, folder / "gateway.pem", folder / "ca.crt", settings.ca_file, settings.keys / "ca.key")

    def read_leaf(self) -> x509.Certificate | None:
        """What the gateway serves with; None when there is nothing usable."""
        try:
            return x509.load_pem_x509_certificates(self.gateway.read_bytes())[0]
        except (OSError, ValueError):
            return None


class TlsFiles:
    """`gid` is the group of the gateway's user; None when it runs as we do."""

    def __init__(self, settings: Settings, gid: int | None) -> None:
        self._settings = settings
        self._gid = gid
        self._paths = TlsPaths.of(settings)
        self._rejected_files: tuple[bytes, bytes] | None = None  # the operator's files that could not be used
        self._reminded: datetime | None = None

    def prepare(self, now: datetime) -> None:
        """Before the gateway starts. A bad file of the operator's is raised, unless an older one can go on."""
        self._make_folder()
        try:
            self._ensure(now)
        except PlatformError as error:
            if self._paths.read_leaf() is None:
                raise
            logger.error("certificate_refused", reason=error.public_message)

    def ensure(self, now: datetime) -> str:
        """Files as they should be now; what was done in words, empty when nothing was."""
        self._make_folder()
        said = self._ensure(now)
        self._remind(now)
        return said

    def _ensure(self, now: datetime) -> str:
        if self._settings.tls_certificate is not None and self._settings.tls_key is not None:
            return self._ensure_own(self._settings.tls_certificate, self._settings.tls_key, now)
        return self._ensure_made(now)

    def _ensure_own(self, certificate: Path, key: Path, now: datetime) -> str:
        """Files that cannot be used leave the ones before them in place, and are named once."""
        texts = operator_certificate.read_files(certificate, key)
        if texts == self._rejected_files:
            return ""
        try:
            own = operator_certificate.check_certificate(*texts, now)
        except PlatformError:
            self._rejected_files = texts
            raise
        self._rejected_files = None
        if self._read(self._paths.gateway) == own.pem:
            return ""
        self._write(self._paths.gateway, own.pem, secret=True)
        missing = certificates.find_missing_names(own.leaf, self._settings)
        if missing:
            logger.warning("certificate_lacks_names", names=missing)
        return f"took over the certificate from {certificate}"

    def _ensure_made(self, now: datetime) -> str:
        ca = self._ensure_ca(now)
        if self._read(self._paths.ca_copy) != ca.certificate_pem:
            self._write(self._paths.ca_copy, ca.certificate_pem, mode=0o644)
        names = certificates.required_names(self._settings)
        leaf = self._made_leaf()
        why = certificates.find_renewal_reason(leaf, ca.certificate, names, now) if leaf else "there was none"
        if why is None:
            return ""
        fresh = certificates.issue_leaf(ca, names, now)
        self._write(self._paths.gateway, fresh.key_pem + fresh.certificate_pem, secret=True)
        return f"made a certificate, because {why}"

    def _ensure_ca(self, now: datetime) -> SignedCertificate:
        """The key first: with it a lost certificate is made again, and what it signed stays signed."""
        key = self._ca_key()
        before = self._ca_certificate()
        if key is None:
            key, before = certificates.generate_key(), None
            self._write(self._paths.ca_key, certificates.encode_key(key), mode=0o600)
        if before is not None and before.public_key() != key.public_key():
            before = None
        permits = before is not None and certificates.permits(before, certificates.required_names(self._settings))
        if before is not None and permits and not certificates.ca_needs_renewal(before, now):
            return SignedCertificate(before, key)
        fresh = certificates.issue_ca(key, now, before, domains=certificates.required_domains(self._settings))
        if before is not None and not permits:
            logger.warning("authority_is_for_another_domain", clients_need=str(self._paths.ca_copy))
        self._write(self._paths.ca, fresh.certificate_pem, mode=0o644)
        logger.info("authority_made", until=fresh.certificate.not_valid_after_utc.isoformat())
        return fresh

    def _ca_key(self) -> certificates.Key | None:
        try:
            key = serialization.load_pem_private_key(self._paths.ca_key.read_bytes(), password=None)
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return key if isinstance(key, certificates.Key) else None

    def _ca_certificate(self) -> x509.Certificate | None:
        try:
            return x509.load_pem_x509_certificate(self._paths.ca.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _made_leaf(self) -> x509.Certificate | None:
        """The one in place, if its key fits."""
        leaf, text = self._paths.read_leaf(), self._read(self._paths.gateway)
        if leaf is None or text is None:
            return None
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            return None
        return leaf if key.public_key() == leaf.public_key() else None

    def _remind(self, now: datetime) -> None:
        """Once a day, of a certificate that somebody else must renew."""
        leaf = self._paths.read_leaf()
        if leaf is None or leaf.not_valid_after_utc - now > EXPIRY_WARNING:
            return
        if self._reminded is None or now - self._reminded >= timedelta(days=1):
            self._reminded = now
            logger.warning("certificate_ends_soon", until=leaf.not_valid_after_utc.isoformat())

    def _make_folder(self) -> None:
        self._paths.folder.mkdir(mode=0o700, exist_ok=True)
        if self._gid is not None:
            os.chown(self._paths.folder, -1, self._gid)
        self._paths.folder.chmod(0o700 if self._gid is None else 0o750)

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, path: Path, text: bytes, *, mode: int = 0o600, secret: bool = False) -> None:
        """Whole or not at all. A secret can be read by the gateway's group too, where it has one."""
        fresh = path.with_name(f".{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if secret and self._gid is not None:
                os.fchown(descriptor, -1, self._gid)
                mode = 0o640
            os.fchmod(descriptor, mode)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        fresh.rename(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # clients may have the CA's certificate before the power goes
        finally:
            os.close(folder)
