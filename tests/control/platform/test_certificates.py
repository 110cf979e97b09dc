"""The contents of certificates and their renewal; the time is a parameter."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from bough.config import Region, Settings
from bough.control.platform import certificates
from bough.control.platform.certificates import SignedCertificate

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SETTINGS = Settings(
    regions=(Region(id="aws-us-east-2", name="Ohio"), Region(id="here-cellar", name="Cellar")), domain="db.example"
)
NAMES = certificates.required_names(SETTINGS)


@pytest.fixture
def ca() -> SignedCertificate:
    return certificates.issue_ca(certificates.generate_key(), NOW)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def test_every_host_a_client_may_type_is_named() -> None:
    assert NAMES == [
        "*.us-east-2.aws.db.example",
        "us-east-2.aws.db.example",
        "*.cellar.here.db.example",
        "cellar.here.db.example",
        "*.db.example",
        "db.example",
        "localhost",
        "127.0.0.1",
        "::1",
    ]


@pytest.mark.parametrize(("listen", "more"), [("0.0.0.0", []), ("::", []), ("10.1.2.3", ["10.1.2.3"])])
def test_a_concrete_address_is_named_too(listen: str, more: list[str]) -> None:
    settings = SETTINGS.model_copy(update={"listen": listen})
    assert certificates.required_names(settings) == NAMES + more


def test_each_name_stands_once() -> None:
    assert len(certificates.required_names(Settings())) == len(set(certificates.required_names(Settings())))


def test_a_leaf_is_what_clients_accept(ca: SignedCertificate) -> None:
    leaf = certificates.issue_leaf(ca, NAMES, NOW).certificate
    assert certificates.read_names(leaf) == set(NAMES)
    addresses = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert addresses.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(leaf.signature_hash_algorithm, hashes.SHA256)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc <= days(398)
    assert leaf.not_valid_before_utc < NOW
    assert certificates.find_renewal_reason(leaf, ca.certificate, NAMES, NOW) is None


@pytest.mark.parametrize(
    ("later", "reason"),
    [(days(0), None), (days(264), None), (days(266), "it expires soon"), (days(500), "it expires soon")],
)
def test_a_leaf_is_replaced_when_a_third_of_its_life_is_left(
    ca: SignedCertificate, later: timedelta, reason: str | None
) -> None:
    leaf = certificates.issue_leaf(ca, NAMES, NOW).certificate
    assert certificates.find_renewal_reason(leaf, ca.certificate, NAMES, NOW + later) == reason


def test_a_leaf_is_replaced_when_names_or_the_authority_change_or_the_clock_was_wrong(ca: SignedCertificate) -> None:
    leaf = certificates.issue_leaf(ca, NAMES, NOW).certificate
    other = certificates.issue_ca(certificates.generate_key(), NOW).certificate
    assert certificates.find_renewal_reason(leaf, ca.certificate, [*NAMES, "more.example"], NOW) == "the names changed"
    assert certificates.find_renewal_reason(leaf, ca.certificate, reversed(NAMES), NOW) is None
    assert certificates.find_renewal_reason(leaf, other, NAMES, NOW) == "the CA changed"
    assert certificates.find_renewal_reason(leaf, ca.certificate, NAMES, NOW - days(30)) == "it is not valid yet"


def test_an_authority_gets_a_new_certificate_for_the_same_key(ca: SignedCertificate) -> None:
    assert not certificates.ca_needs_renewal(ca.certificate, NOW + days(2900))
    assert certificates.ca_needs_renewal(ca.certificate, NOW + days(2930))
    later = NOW + days(2930)
    again = certificates.issue_ca(ca.key, later, ca.certificate)
    leaf = certificates.issue_leaf(again, NAMES, later).certificate
    for authority in (ca, again):
        leaf.verify_directly_issued_by(authority.certificate)
    assert again.certificate.not_valid_after_utc > ca.certificate.not_valid_after_utc


def test_no_leaf_outlives_its_authority(ca: SignedCertificate) -> None:
    leaf = certificates.issue_leaf(ca, NAMES, NOW + days(3600)).certificate
    assert leaf.not_valid_after_utc == ca.certificate.not_valid_after_utc


def test_which_wildcards_a_certificate_lacks(ca: SignedCertificate) -> None:
    leaf = certificates.issue_leaf(ca, ["*.us-east-2.aws.db.example"], NOW).certificate
    assert certificates.find_missing_names(leaf, SETTINGS) == ["*.cellar.here.db.example"]
