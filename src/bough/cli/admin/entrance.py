"""Checks of what Postgres clients meet: the gateway's certificate and the names of its hosts."""

from bough import clock
from bough.cli.admin.finding import Finding, failed, fine, warning
from bough.config import Settings
from bough.control import certificates, own_certificate
from bough.control import names as hosts
from bough.control.tls_files import SOON, TlsPaths
from bough.errors import PlatformError

INSTALL = "apt-get install libnss-myhostname"


def certificate(settings: Settings) -> Finding:
    """One of the operator's own that cannot be used keeps the platform from starting."""
    if settings.tls_certificate is not None and settings.tls_key is not None:
        return _own(settings)
    leaf = TlsPaths.of(settings).leaf()
    if leaf is None:
        return fine("certificate", "will be made")
    if leaf.not_valid_after_utc - clock.now() < SOON:
        sentence = f"The gateway's certificate ends on {leaf.not_valid_after_utc:%Y-%m-%d} and was not renewed in time."
        return warning("certificate", f"{sentence} The running platform renews it; `bough logs` says what hinders it.")
    return fine(
        "certificate", f"valid until {leaf.not_valid_after_utc:%Y-%m-%d}; clients verify it with {settings.ca_file}"
    )


def _own(settings: Settings) -> Finding:
    assert settings.tls_certificate is not None and settings.tls_key is not None
    now = clock.now()
    try:
        own = own_certificate.checked(*own_certificate.read(settings.tls_certificate, settings.tls_key), now)
    except PlatformError as error:
        return failed("certificate", error.public)
    missing = certificates.uncovered(own.leaf, settings)
    if missing:
        sentence = f"Your certificate lacks {', '.join(missing)}: clients that verify the host refuse it."
        return warning("certificate", sentence)
    until = f"{own.leaf.not_valid_after_utc:%Y-%m-%d}"
    if own.leaf.not_valid_after_utc - now < SOON:
        sentence = f"Your certificate ends on {until}; put a new one in {settings.tls_certificate} before."
        return warning("certificate", f"{sentence} It is taken over without a restart.")
    return fine("certificate", f"your own, valid until {until}")


def names(settings: Settings) -> Finding:
    """Whether programs on this machine find the hosts that they are given."""
    region = settings.regions[0]
    every = f"*.{region.place}.{region.cloud}.{settings.domain}"
    if not hosts.is_local(settings.domain):
        return fine("names", f"{every} must lead to this machine, by your DNS")
    if hosts.resolve_by_themselves(settings):
        return fine("names", f"{every} resolves by itself")
    if hosts.needed_file(settings):
        return fine("names", f"{every} is kept in {settings.hosts_file}, host by host")
    why = f"{settings.hosts_file} cannot be written" if settings.hosts_file else "the setting 'hosts_file' is empty"
    sentence = f"Hosts under {settings.domain} do not resolve on this machine, and {why}: clients need "
    return warning("names", f"{sentence}`&hostaddr=127.0.0.1` at the end of the URI, or {INSTALL!r}.", INSTALL)
