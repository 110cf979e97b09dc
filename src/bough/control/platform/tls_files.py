"""Creates and renews the gateway's TLS files: `tls/`, `ca.crt` and `keys/ca.key` in the home.

Each file is replaced atomically, in an order in which a later attempt can use the files written so far: a crash at
any moment leaves a set of files that the gateway can serve with.
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

EXPIRY_WARNING = timedelta(days=21)  # before the expiry of a certificate that only the operator can renew

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
        """Return the certificate that the gateway serves; None if there is no usable one."""
        try:
            return x509.load_pem_x509_certificates(self.gateway.read_bytes())[0]
        except (OSError, ValueError):
            return None


class TlsFiles:
    """`gid` is the group of the gateway's user; None if the gateway runs as the same user."""

    def __init__(self, settings: Settings, gid: int | None) -> None:
        self._settings = settings
        self._gid = gid
        self._paths = TlsPaths.of(settings)
        self._rejected_files: tuple[bytes, bytes] | None = None  # the operator's files that failed the check
        self._warned_at: datetime | None = None

    def prepare(self, now: datetime) -> None:
        """Create the files before the gateway starts. Raises for invalid operator files, unless older ones remain."""
        self._make_folder()
        try:
            self._ensure(now)
        except PlatformError as error:
            if self._paths.read_leaf() is None:
                raise
            logger.error("certificate_rejected", reason=error.public_message)

    def ensure(self, now: datetime) -> str:
        """Create or renew the files; return what was done as a sentence, or an empty string."""
        self._make_folder()
        message = self._ensure(now)
        self._warn_of_expiry(now)
        return message

    def _ensure(self, now: datetime) -> str:
        if self._settings.tls_certificate is not None and self._settings.tls_key is not None:
            return self._ensure_operator_files(self._settings.tls_certificate, self._settings.tls_key, now)
        return self._ensure_issued_files(now)

    def _ensure_operator_files(self, certificate: Path, key: Path, now: datetime) -> str:
        """Install the operator's files. Invalid ones leave the installed ones in place and are reported once."""
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
        return f"installed the certificate from {certificate}"

    def _ensure_issued_files(self, now: datetime) -> str:
        ca = self._ensure_ca(now)
        if self._read(self._paths.ca_copy) != ca.certificate_pem:
            self._write(self._paths.ca_copy, ca.certificate_pem, mode=0o644)
        names = certificates.required_names(self._settings)
        leaf = self._issued_leaf()
        reason = certificates.find_renewal_reason(leaf, ca.certificate, names, now) if leaf else "there was none"
        if reason is None:
            return ""
        fresh = certificates.issue_leaf(ca, names, now)
        self._write(self._paths.gateway, fresh.key_pem + fresh.certificate_pem, secret=True)
        return f"issued a certificate, because {reason}"

    def _ensure_ca(self, now: datetime) -> SignedCertificate:
        """Return the CA. Its key is written first: with the key, a lost CA certificate can be reissued."""
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
            logger.warning("ca_reissued_for_new_domain", clients_need=str(self._paths.ca_copy))
        self._write(self._paths.ca, fresh.certificate_pem, mode=0o644)
        logger.info("ca_issued", until=fresh.certificate.not_valid_after_utc.isoformat())
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

    def _issued_leaf(self) -> x509.Certificate | None:
        """Return the installed leaf if it matches its key."""
        leaf, text = self._paths.read_leaf(), self._read(self._paths.gateway)
        if leaf is None or text is None:
            return None
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            return None
        return leaf if key.public_key() == leaf.public_key() else None

    def _warn_of_expiry(self, now: datetime) -> None:
        """Warn once a day of a certificate that expires soon, which only the operator can renew."""
        leaf = self._paths.read_leaf()
        if leaf is None or leaf.not_valid_after_utc - now > EXPIRY_WARNING:
            return
        if self._warned_at is None or now - self._warned_at >= timedelta(days=1):
            self._warned_at = now
            logger.warning("certificate_expires_soon", until=leaf.not_valid_after_utc.isoformat())

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
        """Replace the file atomically. A secret is also readable by the gateway's group, if there is one."""
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
            os.fsync(folder)  # clients may have copied the CA certificate before a power failure
        finally:
            os.close(folder)
