"""Pool settings of endpoints: supported settings, valid values, and the result."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain import pooler
from bough.domain.endpoint import max_connections
from bough.domain.pooler import SUPPORTED_SETTINGS, PoolSettings, PoolStats, parse_pool_settings
from bough.engine.spec import build_compute_settings
from bough.errors import Invalid

COUNTS = {"default_pool_size": "servers_per_pool", "max_prepared_statements": "statements"}
SECONDS = {
    "query_wait_timeout": "wait_seconds",
    "server_idle_timeout": "idle_seconds",
    "server_lifetime": "lifetime_seconds",
    "idle_transaction_timeout": "idle_transaction_seconds",
    "client_idle_timeout": "client_idle_seconds",
}

NO_NUMBERS = [
    *"-1 +1 1s 1e3 1_0 0x1 nan inf Infinity 1,5 1. .5 1.5.1 ٣ ² true 99999999999 2147483648".split(),
    *("", " ", "1 ", "1\n", "\0", "\ud800", "9" * 5000, "0." + "1" * 5000),
]


def of(settings: dict[str, str], connections: int = 20_000) -> PoolSettings:
    return parse_pool_settings({pooler.SETTINGS_KEY: settings}, connections, direct_host_too=False)


def test_these_are_honoured_and_no_others() -> None:
    assert set(SUPPORTED_SETTINGS) == {"pool_mode", *COUNTS, *SECONDS}
    pooler.check_settings({})
    pooler.check_settings({"pool_mode": "transaction"})


@given(st.sampled_from(sorted(COUNTS)), st.integers(1, 10_000))
def test_a_count_is_read_as_it_is_written(name: str, value: int) -> None:
    pooler.check_settings({name: str(value)})
    read = getattr(of({name: str(value)}), COUNTS[name])
    assert (type(read), read) == (int, value)


@given(st.sampled_from(sorted(SECONDS)), st.decimals(0, pooler.MAX_SECONDS, places=3))
def test_seconds_are_read_as_they_are_written(name: str, value: float) -> None:
    text = f"{value:f}"
    if name == "server_lifetime" and not float(text):
        return
    pooler.check_settings({name: text})
    read = getattr(of({name: text}), SECONDS[name])
    assert (type(read), read) == (float, float(text))


@pytest.mark.parametrize("name", sorted(SECONDS.keys() - {"server_lifetime"}))
def test_no_seconds_are_no_limit(name: str) -> None:
    for text in ("0", "0.0", "00"):
        pooler.check_settings({name: text})
        assert getattr(of({name: text}), SECONDS[name]) == 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("server_lifetime", "0, a new server connection for every transaction, is not supported"),
        ("max_prepared_statements", "prepared statements cannot be disabled"),
        ("default_pool_size", "is '0': use a whole number from 1 to 10000"),
    ],
)
def test_a_zero_that_would_mean_something_else_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=re.escape(sentence)):
        pooler.check_settings({name: "0"})
    assert of({name: "0"}) == of({})


@pytest.mark.parametrize("name", sorted(COUNTS | SECONDS))
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_such_number_is_refused_with_what_is(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=rf"pgbouncer_settings\.{name} is .*: use (a whole number|seconds)") as refused:
        pooler.check_settings({name: text})
    assert len(refused.value.public_message) < 600
    refused.value.public_message.encode()
    assert of({name: text}) == of({})


@pytest.mark.parametrize("mode", ["session", "statement", "", "Transaction", "transaction "])
def test_only_transactions_are_pooled(mode: str) -> None:
    with pytest.raises(Invalid, match=r"pgbouncer_settings\.pool_mode is .*: only transaction is supported"):
        pooler.check_settings({"pool_mode": mode})
    with pytest.raises(Invalid, match=r"pooler_mode is .*: only transaction is supported"):
        pooler.check_pool_mode("pooler_mode", mode)


@given(st.text().filter(lambda name: name not in SUPPORTED_SETTINGS), st.text())
def test_any_other_name_is_refused_with_those_that_are_honoured(name: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        pooler.check_settings({"default_pool_size": "5", name: text})
    assert all(honoured in refused.value.public_message for honoured in SUPPORTED_SETTINGS)
    assert of({"default_pool_size": "5", name: text}) == of({"default_pool_size": "5"})


@given(st.dictionaries(st.sampled_from(SUPPORTED_SETTINGS) | st.text(), st.integers().map(str) | st.text()))
def test_whatever_is_stored_can_be_read(settings: dict[str, str]) -> None:
    found = of(settings)
    assert 1 <= found.servers_per_pool <= found.servers
    assert 1 <= found.statements <= 10_000
    assert found.lifetime_seconds > 0


@given(st.floats(0.25, 1024))
def test_the_pools_leave_a_tenth_of_what_the_compute_has(cu: float) -> None:
    connections = int(build_compute_settings(cu, logical_replication=False)["max_connections"])
    assert connections == max_connections(cu)
    found = parse_pool_settings({}, connections, direct_host_too=True)
    assert found.servers == found.servers_per_pool
    assert connections * 0.9 - 1 < found.servers <= connections * 0.9
    assert found.direct_host_too


@pytest.mark.parametrize(("connections", "servers"), [(0, 1), (1, 1), (2, 1), (10, 9), (112, 100), (4000, 3600)])
def test_there_is_always_one_server(connections: int, servers: int) -> None:
    assert of({}, connections).servers == servers
    assert of({"default_pool_size": "10000"}, connections).servers_per_pool == servers
    assert of({"default_pool_size": "1"}, connections).servers_per_pool == 1


def test_an_endpoint_without_settings_has_the_defaults() -> None:
    expected = PoolSettings(servers=90, servers_per_pool=90)
    none: list[dict[str, Any]] = [{}, {"pg_settings": {"work_mem": "4MB"}}, {pooler.SETTINGS_KEY: {}}]
    for settings in (*none, {pooler.SETTINGS_KEY: None}):
        assert parse_pool_settings(settings, 100, direct_host_too=False) == expected


def test_moments_of_several_workers_add_up() -> None:
    one = PoolStats(clients_active=1, clients_waiting=2, clients_idle=3, servers_active=4, servers_idle=5)
    twice = PoolStats(clients_active=2, clients_waiting=4, clients_idle=6, servers_active=8, servers_idle=10)
    assert one + one == twice
    assert one + PoolStats() == one
