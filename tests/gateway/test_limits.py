"""Strangers are held up, and friends are not."""

import pytest

from bough import clock
from bough.errors import RateExceeded
from bough.gateway import limits as limits_module
from bough.gateway.limits import FAILURES_AT_ENDPOINT, FAILURES_OF_ADDRESS, WINDOW, Limits
from bough.ids import EndpointId

ONE, OTHER = EndpointId("ep-one"), EndpointId("ep-other")


def failing(limits: Limits, address: str, times: int, endpoint: EndpointId = ONE) -> None:
    for _ in range(times):
        limits.failed(address, endpoint)


def test_an_address_that_fails_too_often_waits_and_others_do_not() -> None:
    limits = Limits()
    failing(limits, "192.0.2.1", FAILURES_OF_ADDRESS - 1)
    limits.check("192.0.2.1", OTHER)
    failing(limits, "192.0.2.1", 1)
    with pytest.raises(RateExceeded, match=r"Too many failed logins; try again in \d+ seconds"):
        limits.check("192.0.2.1", OTHER)
    limits.check("192.0.2.2", ONE)


def test_it_may_try_again_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits()
    failing(limits, "192.0.2.1", FAILURES_OF_ADDRESS)
    moment = clock.monotonic() + WINDOW + 1
    monkeypatch.setattr(clock, "monotonic", lambda: moment)
    limits.check("192.0.2.1", ONE)
    failing(limits, "192.0.2.1", 1)
    limits.check("192.0.2.1", ONE)


def test_an_endpoint_under_attack_still_lets_its_friends_in() -> None:
    limits = Limits()
    limits.passed("198.51.100.7", ONE)
    for number in range(FAILURES_AT_ENDPOINT):
        limits.failed(f"192.0.2.{number}", ONE)
    with pytest.raises(RateExceeded):
        limits.check("203.0.113.1", ONE)
    limits.check("198.51.100.7", ONE)
    limits.check("203.0.113.1", OTHER)


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    limits = Limits()
    for number in range(FAILURES_OF_ADDRESS):
        limits.failed(f"2001:db8:0:1::{number:x}", ONE)
    with pytest.raises(RateExceeded):
        limits.check("2001:db8:0:1:ffff::1", OTHER)
    limits.check("2001:db8:0:2::1", OTHER)


def test_newcomers_are_bounded_and_counted_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "NEWCOMERS_OF_ADDRESS", 2)
    limits = Limits()
    with limits.newcomer("192.0.2.1"), limits.newcomer("192.0.2.1"):
        with pytest.raises(RateExceeded), limits.newcomer("192.0.2.1"):
            pass
        with limits.newcomer("192.0.2.2"), limits.newcomer(None):
            pass
    with limits.newcomer("192.0.2.1"):
        pass


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "_MOST", 10)
    limits = Limits()
    for number in range(100):
        limits.failed(f"192.0.2.{number}", EndpointId(f"ep-{number}"))
        limits.passed(f"192.0.2.{number}", EndpointId(f"ep-{number}"))
    assert len(limits._of_address._counts) == len(limits._at_endpoint._counts) == len(limits._friends) == 10
