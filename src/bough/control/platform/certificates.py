"""Issue the gateway's certificate and the installation's certificate authority (CA). Pure: accesses no files.

Uses P-256 and SHA-256 throughout: all clients support them, and SCRAM channel binding needs a
certificate whose signature algorithm has a hash.
"""

import ipaddress
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bough.config import Settings

CA_LIFETIME = timedelta(days=3650)
CA_MIN_REMAINING = timedelta(days=730)  # below this the CA certificate is reissued for the same key
LEAF_LIFETIME = timedelta(days=398)  # the longest lifetime that all clients accept
CLOCK_SKEW = timedelta(hours=1)  # clients' clocks may be behind

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    certificate: x509.Certificate
    key: Key

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return encode_key(self.key)


def generate_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def encode_key(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def issue_ca(
    key: Key, now: datetime, previous: x509.Certificate | None = None, *, domains: Sequence[str] = ()
) -> SignedCertificate:
    """Issue a CA certificate. It keeps the name of `previous`, so that leaves signed by the key stay valid.

    Name constraints restrict it to `domains`, so that a stolen key cannot impersonate other hosts to clients that
    trust it. IP addresses are not restricted, because `listen` may change while clients keep the file they have.
    """
    name = previous.subject if previous else _name(f"Bough CA {secrets.token_hex(4)}")
    builder = _start_builder(name, name, key, now - CLOCK_SKEW, now - CLOCK_SKEW + CA_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    if domains:
        permitted = [x509.DNSName(domain) for domain in domains]
        builder = builder.add_extension(x509.NameConstraints(permitted, None), critical=True)
    return SignedCertificate(builder.sign(key, hashes.SHA256()), key)


def required_domains(settings: Settings) -> list[str]:
    """Return the domains that the CA must permit, each including its subdomains."""
    return list(dict.fromkeys([settings.domain, "localhost"]))


def permits(ca: x509.Certificate, names: Iterable[str]) -> bool:
    """Return whether the CA permits all of these names. Without name constraints it permits any name."""
    try:
        found = ca.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees or []
    except x509.ExtensionNotFound:
        return True
    domains = [each.value for each in found if isinstance(each, x509.DNSName)]
    hosts = [name for name in names if isinstance(_general_name(name), x509.DNSName)]
    return all(any(host == domain or host.endswith(f".{domain}") for domain in domains) for host in hosts)


def issue_leaf(ca: SignedCertificate, names: Sequence[str], now: datetime) -> SignedCertificate:
    key = generate_key()
    until = min(now - CLOCK_SKEW + LEAF_LIFETIME, ca.certificate.not_valid_after_utc)
    builder = _start_builder(_name("Bough gateway"), ca.certificate.subject, key, now - CLOCK_SKEW, until)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key())
    builder = builder.add_extension(authority, critical=False)
    return SignedCertificate(builder.sign(ca.key, hashes.SHA256()), key)


def ca_needs_renewal(ca: x509.Certificate, now: datetime) -> bool:
    return ca.not_valid_before_utc > now or ca.not_valid_after_utc - now < CA_MIN_REMAINING


def find_renewal_reason(
    leaf: x509.Certificate, ca: x509.Certificate, names: Iterable[str], now: datetime
) -> str | None:
    """Return why the leaf certificate must be replaced; None if it need not be."""
    start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if start > now:
        return "it is not valid yet"
    if end - now < (end - start) / 3:
        return "it expires soon"
    if read_names(leaf) != set(names):
        return "the names changed"
    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return "the CA changed"
    return None


def required_names(settings: Settings) -> list[str]:
    """Return every hostname and address that a client may use, without duplicates."""
    names = [
        name for region in settings.regions for name in _region_names(settings.domain, region.cloud, region.location)
    ]
    names += [f"*.{settings.domain}", settings.domain, "localhost", "127.0.0.1", "::1"]
    if settings.listen not in {"", "0.0.0.0", "::"}:  # noqa: S104 - names of "every address", not a bind
        names.append(settings.listen)
    return list(dict.fromkeys(names))


def read_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return set(found.get_values_for_type(x509.DNSName)) | addresses


def find_missing_names(certificate: x509.Certificate, settings: Settings) -> list[str]:
    """Return the wildcard names of the configured regions that the certificate lacks."""
    names = {name.lower() for name in read_names(certificate)}
    required = (f"*.{region.location}.{region.cloud}.{settings.domain}" for region in settings.regions)
    return [name for name in required if name not in names]


def _region_names(domain: str, cloud: str, location: str) -> tuple[str, str]:
    return f"*.{location}.{cloud}.{domain}", f"{location}.{cloud}.{domain}"


def _start_builder(
    subject: x509.Name, issuer: x509.Name, key: Key, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
