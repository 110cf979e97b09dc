"""Checks of what Postgres clients need to connect: the gateway's certificate and its host names."""

from pathlib import Path

from bough import clock
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings
from bough.control.platform import certificates, operator_certificate
from bough.control.platform import hostnames as hosts
from bough.control.platform.tls_files import EXPIRY_WARNING, TlsPaths
from bough.errors import PlatformError

INSTALL_COMMAND = "apt-get install libnss-myhostname"


def check_certificate(settings: Settings) -> Finding:
    """An operator's certificate that cannot be used prevents the start."""
    if settings.tls_certificate is not None and settings.tls_key is not None:
        return _check_own_certificate(settings, settings.tls_certificate, settings.tls_key)
    leaf = TlsPaths.of(settings).read_leaf()
    if leaf is None:
        return ok("certificate", "will be created")
    expiry = f"{leaf.not_valid_after_utc:%Y-%m-%d}"
    if leaf.not_valid_after_utc - clock.now() < EXPIRY_WARNING:
        return warning(
            "certificate",
            f"The gateway's certificate expires on {expiry} and was not renewed in time. "
            "The running platform renews it; `bough logs` shows why it could not.",
        )
    return ok("certificate", f"valid until {expiry}; clients verify it with {settings.ca_file}")


def _check_own_certificate(settings: Settings, certificate: Path, key: Path) -> Finding:
    now = clock.now()
    try:
        own = operator_certificate.check_certificate(*operator_certificate.read_files(certificate, key), now)
    except PlatformError as error:
        return failed("certificate", error.public_message)
    missing = certificates.find_missing_names(own.leaf, settings)
    if missing:
        return warning(
            "certificate",
            f"Your certificate does not cover {', '.join(missing)}: clients that verify the host name reject it.",
        )
    expiry = f"{own.leaf.not_valid_after_utc:%Y-%m-%d}"
    if own.leaf.not_valid_after_utc - now < EXPIRY_WARNING:
        return warning(
            "certificate",
            f"Your certificate expires on {expiry}; replace {certificate} before then. No restart is needed.",
        )
    return ok("certificate", f"your own, valid until {expiry}")


def check_hostnames(settings: Settings) -> Finding:
    """Whether programs on this machine can resolve the endpoints' host names."""
    region = settings.regions[0]
    wildcard = f"*.{region.location}.{region.cloud}.{settings.domain}"
    if not hosts.is_local(settings.domain):
        return ok("names", f"your DNS must resolve {wildcard} to this machine")
    if hosts.resolve_without_file(settings):
        return ok("names", f"{wildcard} resolves to this machine")
    if hosts.find_hosts_file(settings):
        return ok("names", f"each host of {wildcard} is written to {settings.hosts_file}")
    reason = f"{settings.hosts_file} is not writable" if settings.hosts_file else "the setting 'hosts_file' is empty"
    return warning(
        "names",
        f"Host names under {settings.domain} do not resolve on this machine, and {reason}. "
        f"Clients need `&hostaddr=127.0.0.1` at the end of the URI, unless you run {INSTALL_COMMAND!r}.",
        INSTALL_COMMAND,
    )
