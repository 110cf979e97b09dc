"""Activity reports of the gateway: counted exactly once, also if they are repeated or control restarts."""

from collections.abc import Collection
from dataclasses import asdict

import pytest
from prometheus_client import REGISTRY

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint
from bough.domain.gateway_reports import EndpointReport, PoolReport
from bough.domain.pooler import PoolStats
from bough.domain.usage import EndpointTraffic, EndpointUsage
from bough.ids import EndpointId
from bough.store.store import Store
from contracts.conftest import store
from support.stores import add_project, make_project

__all__ = ["store"]  # both backends


def make_report(
    endpoint: EndpointId,
    *,
    moved: int = 0,
    connections: int = 0,
    active: bool = True,
    pool: PoolStats | None = None,
    waits: int = 0,
) -> EndpointReport:
    return EndpointReport(
        endpoint=endpoint,
        bytes_in=moved,
        bytes_out=2 * moved,
        opened=1,
        connections=connections,
        is_active=active,
        pool=None if pool is None else PoolReport(**asdict(pool), waits=waits, waited_seconds=waits / 4),
    )


def get_pool_waits(endpoint: EndpointId) -> tuple[float | None, float | None]:
    """Return the number and seconds of waits, from the Prometheus metrics."""
    labels: dict[str, str] = {"endpoint_id": endpoint}
    count, seconds = (
        REGISTRY.get_sample_value(name, labels) for name in ("bough_pool_waits_total", "bough_pool_wait_seconds_total")
    )
    return count, seconds


async def get_usage(store: Store, endpoint: EndpointId) -> tuple[int, int, int]:
    async with store.read() as rows:
        found = await rows.usage.get(endpoint)
    assert isinstance(found, EndpointUsage)
    return found.bytes_in, found.bytes_out, found.connections_opened


@pytest.fixture
async def endpoint(store: Store) -> Endpoint:
    return (await add_project(store, make_project()))[1]


async def test_a_report_that_comes_again_counts_once(store: Store, endpoint: Endpoint) -> None:
    activity = EndpointActivity(store)
    for _ in range(3):
        await activity.report("w", 1, [make_report(endpoint.id, moved=10)])
    assert await get_usage(store, endpoint.id) == (10, 20, 1)
    await activity.report("w", 2, [make_report(endpoint.id, moved=5)])
    await activity.report("w", 1, [make_report(endpoint.id, moved=10)])
    assert await get_usage(store, endpoint.id) == (15, 30, 2)


async def test_it_counts_once_also_over_a_restart_of_control(store: Store, endpoint: Endpoint) -> None:
    await EndpointActivity(store).report("w", 7, [make_report(endpoint.id, moved=10)])
    again = EndpointActivity(store)
    await again.report("w", 7, [make_report(endpoint.id, moved=10)])
    assert await get_usage(store, endpoint.id) == (10, 20, 1)
    await again.report("w", 8, [make_report(endpoint.id, moved=10)])
    assert await get_usage(store, endpoint.id) == (20, 40, 2)


async def test_workers_count_apart(store: Store, endpoint: Endpoint) -> None:
    activity = EndpointActivity(store)
    for worker in ("a", "b"):
        await activity.report(worker, 1, [make_report(endpoint.id, moved=10)])
    assert await get_usage(store, endpoint.id) == (20, 40, 2)


async def test_a_report_counts_whole_or_not_at_all(
    store: Store, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (await add_project(store, make_project(1)))[1]
    activity = EndpointActivity(store)
    everything = [make_report(endpoint.id, moved=10), make_report(other.id, moved=10)]
    with monkeypatch.context() as during, pytest.raises(RuntimeError, match="cut"):
        during.setattr(store, "transaction", cut_after_one(store))
        await activity.report("w", 1, everything)
    assert [await get_usage(store, each.id) for each in (endpoint, other)] == [(0, 0, 0)] * 2
    await activity.report("w", 1, everything)
    assert [await get_usage(store, each.id) for each in (endpoint, other)] == [(10, 20, 1)] * 2


async def test_an_endpoint_that_is_gone_spoils_nothing(store: Store, endpoint: Endpoint) -> None:
    await EndpointActivity(store).report(
        "w", 1, [make_report(EndpointId.new(), moved=1), make_report(endpoint.id, moved=2)]
    )
    assert await get_usage(store, endpoint.id) == (2, 4, 1)


async def test_only_activity_makes_it_last_active(store: Store, endpoint: Endpoint) -> None:
    activity = EndpointActivity(store)

    async def last_active() -> object:
        async with store.read() as rows:
            found = await rows.endpoints.get(endpoint.id)
        return found.last_active if found else None

    await activity.report("w", 1, [make_report(endpoint.id, active=False)])
    assert await last_active() is None
    assert activity.take_unread() == set()
    before = clock.now()
    await activity.report("w", 2, [make_report(endpoint.id)])
    found = await last_active()
    assert found is not None
    assert before <= found  # type: ignore[operator]
    assert activity.take_unread() == {endpoint.id}
    assert activity.take_unread() == set()


async def test_open_connections_are_summed_over_workers_that_live(
    store: Store, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    activity = EndpointActivity(store)
    await activity.report("a", 1, [make_report(endpoint.id, connections=3)])
    await activity.report("b", 1, [make_report(endpoint.id, connections=4)])
    assert activity.connections == {endpoint.id: 7}
    await activity.report("a", 2, [])
    assert activity.connections == {endpoint.id: 7}, "what is not named stays"
    await activity.report("a", 3, [make_report(endpoint.id, connections=0, active=False)])
    assert activity.connections == {endpoint.id: 4}
    later = clock.monotonic() + 100
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    assert activity.connections == {}


async def test_who_is_at_the_pools_is_summed_over_workers_that_live(
    store: Store, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    activity = EndpointActivity(store)
    first = PoolStats(clients_active=1, clients_waiting=2, clients_idle=3, servers_active=4, servers_idle=5)
    other = PoolStats(clients_idle=10, servers_idle=1)
    await activity.report("a", 1, [make_report(endpoint.id, pool=first)])
    await activity.report("b", 1, [make_report(endpoint.id, pool=other)])
    both = PoolStats(clients_active=1, clients_waiting=2, clients_idle=13, servers_active=4, servers_idle=6)
    assert activity.pools == {endpoint.id: both}
    await activity.report("a", 2, [])
    assert activity.pools == {endpoint.id: both}, "what is not named stays"
    await activity.report("a", 1, [make_report(endpoint.id, pool=other)])
    assert activity.pools == {endpoint.id: both}, "what comes late is not how it is now"
    await activity.report("a", 3, [make_report(endpoint.id, connections=1)])
    assert activity.pools == {endpoint.id: other}, "without a pool nobody is at it"
    later = clock.monotonic() + 100
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    assert activity.pools == {}


async def test_waiting_counts_once_whatever_comes_again(store: Store, endpoint: Endpoint) -> None:
    activity = EndpointActivity(store)
    await activity.report("w", 1, [make_report(endpoint.id)])
    assert get_pool_waits(endpoint.id) == (None, None), "nobody was at a pool"
    await activity.report("w", 2, [make_report(endpoint.id, pool=PoolStats())])
    assert get_pool_waits(endpoint.id) == (0, 0)
    for _ in range(3):
        await activity.report("w", 3, [make_report(endpoint.id, pool=PoolStats(), waits=2)])
    await EndpointActivity(store).report(
        "w", 3, [make_report(endpoint.id, pool=PoolStats(), waits=2)]
    )  # after a restart of control
    assert get_pool_waits(endpoint.id) == (2, 0.5)
    await activity.report("other", 1, [make_report(endpoint.id, pool=PoolStats(), waits=1)])
    await activity.report("w", 4, [make_report(endpoint.id, pool=PoolStats(), waits=1)])
    await activity.report("w", 3, [make_report(endpoint.id, pool=PoolStats(), waits=2)])
    assert get_pool_waits(endpoint.id) == (4, 1)


async def test_changes_are_told_to_every_worker_until_it_has_heard(store: Store, endpoint: Endpoint) -> None:
    activity = EndpointActivity(store)

    async def report_from_all(sequence: int) -> list[Collection[EndpointId]]:
        return [await activity.report(worker, sequence, []) for worker in ("a", "b")]

    assert await report_from_all(1) == [frozenset()] * 2
    activity.invalidate(endpoint.id)
    assert await report_from_all(2) == [{endpoint.id}] * 2
    assert await report_from_all(2) == [{endpoint.id}] * 2, "the answer may have been lost"
    assert await report_from_all(3) == [frozenset()] * 2


def cut_after_one(store: Store):  # type: ignore[no-untyped-def]
    """Make the write of the second endpoint fail in every transaction."""
    from contextlib import asynccontextmanager

    begin = store.transaction

    @asynccontextmanager
    async def transaction(*, durable: bool = True):  # type: ignore[no-untyped-def]
        async with begin(durable=durable) as rows:
            add, count = rows.usage.add_traffic, 0

            async def add_traffic(traffic: EndpointTraffic) -> None:
                nonlocal count
                count += 1
                if count == 2:
                    raise RuntimeError("cut")
                await add(traffic)

            rows.usage.add_traffic = add_traffic  # type: ignore[method-assign]
            yield rows

    return transaction


async def test_who_was_in_use_is_measured_once_and_who_was_served_is_counted_once(
    store: Store, endpoint: Endpoint
) -> None:
    activity = EndpointActivity(store)
    await activity.report("w", 1, [make_report(endpoint.id, active=False)])
    assert (activity.take_unmeasured(), activity.take_with_outgoing_traffic()) == (set(), set())
    await activity.report("w", 2, [make_report(endpoint.id)])
    assert (activity.take_unmeasured(), activity.take_with_outgoing_traffic()) == ({endpoint.id}, set())
    await activity.report("w", 3, [make_report(endpoint.id, moved=1)])
    assert (activity.take_unmeasured(), activity.take_with_outgoing_traffic()) == ({endpoint.id}, {endpoint.id})
    assert (activity.take_unmeasured(), activity.take_with_outgoing_traffic()) == (set(), set())
    activity.mark_unmeasured([endpoint.id])
    assert activity.take_unmeasured() == {endpoint.id}
