"""Allowed client addresses: accepted and rejected entries, and the resulting networks."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain import allowed_ips


def networks(*ips: str, protected_only: bool = False, protected: bool = False) -> tuple[str, ...] | None:
    settings = {"allowed_ips": {"ips": list(ips), "protected_branches_only": protected_only}}
    return allowed_ips.parse_networks(settings, branch_is_protected=protected)


def test_nothing_said_means_everywhere() -> None:
    assert networks() is None
    assert allowed_ips.parse_networks({}, branch_is_protected=True) is None
    assert allowed_ips.parse_networks({"allowed_ips": {"ips": None}}, branch_is_protected=True) is None


def test_addresses_networks_and_ranges() -> None:
    assert networks("192.0.2.1", "2001:db8::/32", "10.1.2.3/8") == ("192.0.2.1/32", "2001:db8::/32", "10.0.0.0/8")
    assert networks("10.0.0.1-10.0.0.4") == ("10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/32")
    assert networks(" ::1 - ::2 ") == ("::1/128", "::2/128")


def test_only_protected_branches_when_it_says_so() -> None:
    assert networks("10.0.0.1", protected_only=True, protected=False) is None
    assert networks("10.0.0.1", protected_only=True, protected=True) == ("10.0.0.1/32",)


def test_what_cannot_be_read_lets_nobody_in() -> None:
    assert networks("10.0.0.9-10.0.0.1") == ()
    assert networks("10.0.0.9-10.0.0.1", "10.0.0.5") == ("10.0.0.5/32",)


@pytest.mark.parametrize(
    "text",
    ["", "x", "10.0.0.0/33", "10.0.0.1-::1", "10.0.0.9-10.0.0.1", "1-2-3", "fe80::1%eth0", "fe80::1%a-fe80::2%a"],
)
def test_a_bad_entry_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="is not an IP address, a network"):
        allowed_ips.check_entry(text)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_range_holds_what_is_between_its_ends(one: int, other: int, third: int) -> None:
    first, last = sorted((one, other))
    found = networks(f"{IPv4Address(first)}-{IPv4Address(last)}") or ()
    assert any(IPv4Address(third) in IPv4Network(each) for each in found) == (first <= third <= last)
