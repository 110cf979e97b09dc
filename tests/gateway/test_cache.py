"""The cache of control's answers, shared wakes, and activity reports."""

import asyncio
from dataclasses import replace

import pytest

from bough import clock
from bough.gateway import cache as cache_module
from bough.gateway import control_plane as control_plane_module
from bough.gateway.activity import ActivityReporter
from bough.gateway.cache import FRESH_SECONDS, ControlCache
from bough.gateway.control_plane import ControlUnavailable
from bough.gateway.peers import WorkerPeers
from bough.gateway.waking import ComputeWaker
from bough.ids import EndpointId
from support import platform
from support.control_plane import ADDRESS, FakeControlPlane, make_access

ONE, OTHER = EndpointId("ep-one"), EndpointId("ep-other")


@pytest.fixture
def control_plane() -> FakeControlPlane:
    return FakeControlPlane()


@pytest.fixture
def cache(control_plane: FakeControlPlane) -> ControlCache:
    return ControlCache(control_plane)


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane_module, "CONTROL_RETRY_SECONDS", 0.2)


def advance_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    moment = clock.monotonic() + seconds
    monkeypatch.setattr(clock, "monotonic", lambda: moment)


async def test_an_answer_is_asked_for_once_while_it_is_fresh(
    control_plane: FakeControlPlane, cache: ControlCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cache.get_access(ONE, "alice")
    await cache.get_access(ONE, "alice")
    assert len(control_plane.calls) == 1
    await cache.get_access(ONE, "bob")
    assert len(control_plane.calls) == 2
    advance_clock(monkeypatch, FRESH_SECONDS + 0.1)
    await cache.get_access(ONE, "alice")
    assert len(control_plane.calls) == 3


async def test_while_control_is_away_an_old_answer_counts(
    control_plane: FakeControlPlane, cache: ControlCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await cache.get_access(ONE, "alice")
    control_plane.is_unavailable = True
    advance_clock(monkeypatch, 3600)
    assert await cache.get_access(ONE, "alice") is known
    with pytest.raises(ControlUnavailable):
        await cache.get_access(ONE, "bob")


async def test_who_is_not_remembered_waits_for_control_to_come_back(
    control_plane: FakeControlPlane, cache: ControlCache
) -> None:
    control_plane.is_unavailable = True
    waiting = asyncio.create_task(cache.get_access(ONE, "alice"))
    await asyncio.sleep(0.05)
    control_plane.is_unavailable = False
    assert (await waiting).is_known


async def test_what_one_worker_does_not_remember_another_may(control_plane: FakeControlPlane) -> None:
    with platform.temporary_folder() as folder:
        all_peers = [WorkerPeers(folder) for _ in range(3)]
        workers = [ControlCache(control_plane, each) for each in all_peers]
        for each, worker in zip(all_peers, workers, strict=True):
            await each.listen({"recall": worker.handle_cached_access_request})
        control_plane.access_reply = replace(
            make_access("one", valid_until=clock.now()), allowed_networks=("10.0.0.0/8",)
        )
        known = await workers[2].get_access(ONE, "alice")
        workers[2].put_address(ONE, ADDRESS)
        control_plane.is_unavailable = True
        assert await workers[0].get_access(ONE, "alice") == known
        assert workers[0].get_address(ONE) == ADDRESS
        with pytest.raises(ControlUnavailable):
            await workers[0].get_access(ONE, "bob")
        for each in all_peers:
            each.close()


async def test_nobody_is_remembered_as_long_and_pushes_out_nobody_else(
    control_plane: FakeControlPlane, cache: ControlCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_MAX_ENTRIES", 10)
    await cache.get_access(ONE, "alice")
    control_plane.access_reply = make_access(is_known=False)
    for number in range(50):
        await cache.get_access(ONE, f"nobody{number}")
    call_count = len(control_plane.calls)
    for name in ("alice", "nobody49"):
        await cache.get_access(ONE, name)
    assert len(control_plane.calls) == call_count
    advance_clock(monkeypatch, FRESH_SECONDS + 0.1)
    for name in ("alice", "nobody49"):
        await cache.get_access(ONE, name)
    assert len(control_plane.calls) == call_count + 2


async def test_a_role_that_is_gone_is_forgotten_also_for_the_time_when_control_is_away(
    control_plane: FakeControlPlane, cache: ControlCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cache.get_access(ONE, "alice")
    control_plane.access_reply = make_access(is_known=False)
    advance_clock(monkeypatch, FRESH_SECONDS + 0.1)
    await cache.get_access(ONE, "alice")
    control_plane.is_unavailable = True
    assert not (await cache.get_access(ONE, "alice")).is_known


async def test_control_can_have_answers_forgotten(control_plane: FakeControlPlane, cache: ControlCache) -> None:
    await cache.get_access(ONE, "alice")
    await cache.get_access(OTHER, "alice")
    cache.put_address(ONE, ADDRESS)
    cache.invalidate([ONE])
    assert cache.get_address(ONE) is None
    await cache.get_access(OTHER, "alice")
    assert len(control_plane.calls) == 2
    await cache.get_access(ONE, "alice")
    assert len(control_plane.calls) == 3


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, cache: ControlCache) -> None:
    monkeypatch.setattr(cache_module, "_MAX_ENTRIES", 10)
    for number in range(50):
        cache.put_address(EndpointId(f"ep-{number}"), ADDRESS)
    assert sum(cache.get_address(EndpointId(f"ep-{number}")) is not None for number in range(50)) == 10
    assert cache.get_address(EndpointId("ep-49")) == ADDRESS


async def test_all_who_wait_share_one_wake(control_plane: FakeControlPlane, cache: ControlCache) -> None:
    waker = ComputeWaker(control_plane, cache)
    addresses = await asyncio.gather(*(waker.wake(ONE) for _ in range(100)), waker.wake(OTHER))
    assert set(addresses) == {ADDRESS}
    assert sorted(control_plane.calls) == [("wake", ONE), ("wake", OTHER)]
    await waker.wake(ONE)
    assert len(control_plane.calls) == 3


async def test_one_who_gives_up_does_not_take_the_wake_from_the_others(
    control_plane: FakeControlPlane, cache: ControlCache
) -> None:
    waker = ComputeWaker(control_plane, cache)
    first, second = asyncio.create_task(waker.wake(ONE)), asyncio.create_task(waker.wake(ONE))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ADDRESS


async def test_a_report_that_control_may_have_heard_is_repeated_with_its_number(
    control_plane: FakeControlPlane, cache: ControlCache
) -> None:
    activity = ActivityReporter(control_plane, cache)
    with activity.track_connection(ONE) as counters:
        counters.bytes_in += 10
        control_plane.loses_replies = True
        await activity.report()
        counters.bytes_in += 5
        control_plane.loses_replies = False
        await activity.report()
        await activity.report()
    first, again, rest = control_plane.reports
    assert first == again
    assert (first.sequence, rest.sequence) == (1, 2)
    assert [(used.bytes_in, used.opened, used.connections) for used in (*first.endpoints, *rest.endpoints)] == [
        (10, 1, 1),
        (5, 0, 1),
    ]


async def test_a_quiet_connection_is_no_activity_and_its_end_is_told(
    control_plane: FakeControlPlane, cache: ControlCache
) -> None:
    activity = ActivityReporter(control_plane, cache)
    with activity.track_connection(ONE):
        await activity.report()
        await activity.report()
        assert len(control_plane.reports) == 1
        await activity.report(include_idle=True)
        assert not control_plane.reports[-1].endpoints[0].is_active
    await activity.report()
    assert [used.connections for used in control_plane.reports[-1].endpoints] == [0]
    await activity.report()
    assert len(control_plane.reports) == 3
