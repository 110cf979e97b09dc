"""Checks of what Postgres clients meet: the gateway's certificate and the names of its hosts."""

from bough import clock
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings
from bough.control.platform import certificates, operator_certificate
from bough.control.platform import hostnames as hosts
from bough.control.platform.tls_files import EXPIRY_WARNING, TlsPaths
from bough.errors import PlatformError

INSTALL_COMMAND = "apt-get install libnss-myhostname"


def check_certificate(settings: Settings) -> Finding:
    """One of the operator's own that cannot be used keeps the platform from starting."""
    if settings.tls_certificate is not None and settings.tls_key is not None:
        return _own(settings)
    leaf = TlsPaths.of(settings).read_leaf()
    if leaf is None:
        return ok("certificate", "will be made")
    if leaf.not_valid_after_utc - clock.now() < EXPIRY_WARNING:
        sentence = f"The gateway's certificate ends on {leaf.not_valid_after_utc:%Y-%m-%d} and was not renewed in time."
        return warning("certificate", f"{sentence} The running platform renews it; `bough logs` says what hinders it.")
    return ok(
        "certificate", f"valid until {leaf.not_valid_after_utc:%Y-%m-%d}; clients verify it with {settings.ca_file}"
    )


def _own(settings: Settings) -> Finding:
    assert settings.tls_certificate is not None and settings.tls_key is not None
    now = clock.now()
    try:
        own = operator_certificate.check_certificate(
            *operator_certificate.read_files(settings.tls_certificate, settings.tls_key), now
        )
    except PlatformError as error:
        return failed("certificate", error.public_message)
    missing = certificates.find_missing_names(own.leaf, settings)
    if missing:
        sentence = f"Your certificate lacks {', '.join(missing)}: clients that verify the host refuse it."
        return warning("certificate", sentence)
    until = f"{own.leaf.not_valid_after_utc:%Y-%m-%d}"
    if own.leaf.not_valid_after_utc - now < EXPIRY_WARNING:
        sentence = f"Your certificate ends on {until}; put a new one in {settings.tls_certificate} before."
        return warning("certificate", f"{sentence} It is taken over without a restart.")
    return ok("certificate", f"your own, valid until {until}")


def check_hostnames(settings: Settings) -> Finding:
    """Whether programs on this machine find the hosts that they are given."""
    region = settings.regions[0]
    every = f"*.{region.place}.{region.cloud}.{settings.domain}"
    if not hosts.is_local(settings.domain):
        return ok("names", f"{every} must lead to this machine, by your DNS")
    if hosts.resolve_without_file(settings):
        return ok("names", f"{every} resolves by itself")
    if hosts.find_hosts_file(settings):
        return ok("names", f"{every} is kept in {settings.hosts_file}, host by host")
    why = f"{settings.hosts_file} cannot be written" if settings.hosts_file else "the setting 'hosts_file' is empty"
    sentence = f"Hosts under {settings.domain} do not resolve on this machine, and {why}: clients need "
    return warning(
        "names", f"{sentence}`&hostaddr=127.0.0.1` at the end of the URI, or {INSTALL_COMMAND!r}.", INSTALL_COMMAND
    )
