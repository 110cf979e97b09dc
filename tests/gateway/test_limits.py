"""Login limits: they delay guessing clients and no others."""

import pytest

from bough import clock
from bough.errors import RateLimitExceeded
from bough.gateway import limits as limits_module
from bough.gateway.client_origin import limit_network
from bough.gateway.limits import (
    MAX_FAILED_ENDPOINTS_PER_CLIENT,
    MAX_FAILURES_PER_CLIENT,
    MAX_FAILURES_PER_ENDPOINT,
    WINDOW_SECONDS,
    LoginAttempt,
    LoginLimits,
)
from bough.ids import EndpointId

ONE, OTHER = EndpointId("ep-one"), EndpointId("ep-other")


def record_failures(limits: LoginLimits, client: str, times: int, endpoint: EndpointId = ONE) -> None:
    for _ in range(times):
        limits.record_failure(client, endpoint)


def test_a_client_that_fails_too_often_at_an_endpoint_waits_there_and_nowhere_else() -> None:
    limits = LoginLimits()
    record_failures(limits, "192.0.2.1", MAX_FAILURES_PER_CLIENT - 1)
    limits.check("192.0.2.1", ONE)
    record_failures(limits, "192.0.2.1", 1)
    with pytest.raises(RateLimitExceeded, match=r"Too many failed logins; try again in \d+ seconds"):
        limits.check("192.0.2.1", ONE)
    limits.check("192.0.2.1", OTHER)
    limits.check("192.0.2.2", ONE)


def test_a_client_that_guesses_at_many_endpoints_waits_where_it_was_never_let_in() -> None:
    limits = LoginLimits()
    limits.count_attempt("192.0.2.1", OTHER)
    limits.record_success("192.0.2.1", OTHER)
    for number in range(MAX_FAILED_ENDPOINTS_PER_CLIENT):
        limits.check("192.0.2.1", ONE)
        limits.record_failure("192.0.2.1", EndpointId(f"ep-{number}"))
    with pytest.raises(RateLimitExceeded):
        limits.check("192.0.2.1", ONE)
    limits.check("192.0.2.1", OTHER)
    limits.check("192.0.2.2", ONE)


def test_what_is_right_is_given_back() -> None:
    limits = LoginLimits()
    for _ in range(2 * MAX_FAILURES_PER_ENDPOINT):
        limits.count_attempt("192.0.2.1", ONE)
        limits.record_success("192.0.2.1", ONE)
    record_failures(limits, "192.0.2.1", MAX_FAILURES_PER_CLIENT - 1)
    limits.count_attempt("192.0.2.1", ONE)
    with pytest.raises(RateLimitExceeded):
        limits.count_attempt("192.0.2.1", ONE)
    limits.record_success("192.0.2.1", ONE)
    limits.count_attempt("192.0.2.1", ONE)


def test_an_attempt_that_ends_unjudged_counts_once_it_was_asked_for_its_proof() -> None:
    limits = LoginLimits()
    for _ in range(MAX_FAILURES_PER_CLIENT + 1):
        LoginAttempt(limits, "192.0.2.1", ONE).close()
    for _ in range(MAX_FAILURES_PER_CLIENT):
        attempt = LoginAttempt(limits, "192.0.2.1", ONE)
        attempt.mark_challenged()
        attempt.close()
    with pytest.raises(RateLimitExceeded):
        LoginAttempt(limits, "192.0.2.1", ONE)


def test_it_may_try_again_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LoginLimits()
    record_failures(limits, "192.0.2.1", MAX_FAILURES_PER_CLIENT)
    moment = clock.monotonic() + WINDOW_SECONDS + 1
    monkeypatch.setattr(clock, "monotonic", lambda: moment)
    limits.check("192.0.2.1", ONE)
    record_failures(limits, "192.0.2.1", 1)
    limits.check("192.0.2.1", ONE)


def test_an_endpoint_under_attack_still_lets_its_friends_in() -> None:
    limits = LoginLimits()
    limits.record_success("198.51.100.7", ONE)
    for number in range(MAX_FAILURES_PER_ENDPOINT):
        limits.record_failure(f"192.0.2.{number}", ONE)
    with pytest.raises(RateLimitExceeded):
        limits.check("203.0.113.1", ONE)
    limits.check("198.51.100.7", ONE)
    limits.check("203.0.113.1", OTHER)


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    assert limit_network("2001:db8:0:1::2") == limit_network("2001:db8:0:1:ffff::1") != limit_network("2001:db8:0:2::1")
    assert limit_network("::1") == "::1"
    assert limit_network("192.0.2.1") == "192.0.2.1"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "_MAX_KEYS", 10)
    limits = LoginLimits()
    for number in range(100):
        record_failures(limits, f"192.0.2.{number}", 2, EndpointId(f"ep-{number}"))
        limits.record_success(f"192.0.2.{number}", EndpointId(f"ep-{number}"))
    counted = (limits._by_client, limits._failed_endpoints, limits._by_endpoint, limits._trusted)
    assert [len(each) for each in counted] == [10] * 4
