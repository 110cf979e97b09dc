"""Strangers are held up, and friends are not."""

import pytest

from bough import clock
from bough.errors import RateExceeded
from bough.gateway import limits as limits_module
from bough.gateway.limits import ENDPOINTS_OF_CLIENT, FAILURES_AT_ENDPOINT, FAILURES_OF_CLIENT, WINDOW, Attempt, Limits
from bough.gateway.peer import network_of
from bough.ids import EndpointId

ONE, OTHER = EndpointId("ep-one"), EndpointId("ep-other")


def failing(limits: Limits, client: str, times: int, endpoint: EndpointId = ONE) -> None:
    for _ in range(times):
        limits.failed(client, endpoint)


def test_a_client_that_fails_too_often_at_an_endpoint_waits_there_and_nowhere_else() -> None:
    limits = Limits()
    failing(limits, "192.0.2.1", FAILURES_OF_CLIENT - 1)
    limits.check("192.0.2.1", ONE)
    failing(limits, "192.0.2.1", 1)
    with pytest.raises(RateExceeded, match=r"Too many failed logins; try again in \d+ seconds"):
        limits.check("192.0.2.1", ONE)
    limits.check("192.0.2.1", OTHER)
    limits.check("192.0.2.2", ONE)


def test_a_client_that_guesses_at_many_endpoints_waits_where_it_was_never_let_in() -> None:
    limits = Limits()
    limits.take("192.0.2.1", OTHER)
    limits.passed("192.0.2.1", OTHER)
    for number in range(ENDPOINTS_OF_CLIENT):
        limits.check("192.0.2.1", ONE)
        limits.failed("192.0.2.1", EndpointId(f"ep-{number}"))
    with pytest.raises(RateExceeded):
        limits.check("192.0.2.1", ONE)
    limits.check("192.0.2.1", OTHER)
    limits.check("192.0.2.2", ONE)


def test_what_is_right_is_given_back() -> None:
    limits = Limits()
    for _ in range(2 * FAILURES_AT_ENDPOINT):
        limits.take("192.0.2.1", ONE)
        limits.passed("192.0.2.1", ONE)
    failing(limits, "192.0.2.1", FAILURES_OF_CLIENT - 1)
    limits.take("192.0.2.1", ONE)
    with pytest.raises(RateExceeded):
        limits.take("192.0.2.1", ONE)
    limits.passed("192.0.2.1", ONE)
    limits.take("192.0.2.1", ONE)


def test_an_attempt_that_ends_unjudged_counts_once_it_was_asked_for_its_proof() -> None:
    limits = Limits()
    for _ in range(FAILURES_OF_CLIENT + 1):
        Attempt(limits, "192.0.2.1", ONE).end()
    for _ in range(FAILURES_OF_CLIENT):
        attempt = Attempt(limits, "192.0.2.1", ONE)
        attempt.begin()
        attempt.end()
    with pytest.raises(RateExceeded):
        Attempt(limits, "192.0.2.1", ONE)


def test_it_may_try_again_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits()
    failing(limits, "192.0.2.1", FAILURES_OF_CLIENT)
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
    assert network_of("2001:db8:0:1::2") == network_of("2001:db8:0:1:ffff::1") != network_of("2001:db8:0:2::1")
    assert network_of("::1") == "::1"
    assert network_of("192.0.2.1") == "192.0.2.1"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "_MOST", 10)
    limits = Limits()
    for number in range(100):
        failing(limits, f"192.0.2.{number}", 2, EndpointId(f"ep-{number}"))
        limits.passed(f"192.0.2.{number}", EndpointId(f"ep-{number}"))
    counted = (limits._of_client, limits._endpoints, limits._at_endpoint, limits._friends)
    assert [len(each) for each in counted] == [10] * 4
