"""What the gateway remembers, how it waits for one wake, and how it reports."""

import asyncio
from dataclasses import replace
from ipaddress import ip_network

import pytest

import world
from bough import clock
from bough.gateway import plane as plane_module
from bough.gateway import remembering as remembering_module
from bough.gateway.activity import Activity
from bough.gateway.plane import Away
from bough.gateway.remembering import FRESH_SECONDS, Remembering
from bough.gateway.siblings import Siblings
from bough.gateway.waking import Waking
from bough.ids import EndpointId
from gateway.planes import HERE, PlaneInMemory, access

ONE, OTHER = EndpointId("ep-one"), EndpointId("ep-other")


@pytest.fixture
def plane() -> PlaneInMemory:
    return PlaneInMemory()


@pytest.fixture
def remembering(plane: PlaneInMemory) -> Remembering:
    return Remembering(plane)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane_module, "PATIENCE", 0.2)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    moment = clock.monotonic() + seconds
    monkeypatch.setattr(clock, "monotonic", lambda: moment)


async def test_an_answer_is_asked_for_once_while_it_is_fresh(
    plane: PlaneInMemory, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remembering.access(ONE, "alice")
    await remembering.access(ONE, "alice")
    assert len(plane.asked) == 1
    await remembering.access(ONE, "bob")
    assert len(plane.asked) == 2
    later(monkeypatch, FRESH_SECONDS + 0.1)
    await remembering.access(ONE, "alice")
    assert len(plane.asked) == 3


async def test_while_control_is_away_an_old_answer_counts(
    plane: PlaneInMemory, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await remembering.access(ONE, "alice")
    plane.is_away = True
    later(monkeypatch, 3600)
    assert await remembering.access(ONE, "alice") is known
    with pytest.raises(Away):
        await remembering.access(ONE, "bob")


async def test_who_is_not_remembered_waits_for_control_to_come_back(
    plane: PlaneInMemory, remembering: Remembering
) -> None:
    plane.is_away = True
    waiting = asyncio.create_task(remembering.access(ONE, "alice"))
    await asyncio.sleep(0.05)
    plane.is_away = False
    assert (await waiting).is_known


async def test_what_one_worker_does_not_remember_another_may(plane: PlaneInMemory) -> None:
    with world.short_folder() as folder:
        siblings = [Siblings(folder) for _ in range(3)]
        workers = [Remembering(plane, each) for each in siblings]
        for each, worker in zip(siblings, workers, strict=True):
            await each.listen({"recall": worker.to_sibling})
        plane.answer = replace(access("one", valid_until=clock.now()), networks=(ip_network("10.0.0.0/8"),))
        known = await workers[2].access(ONE, "alice")
        workers[2].keep_address(ONE, HERE)
        plane.is_away = True
        assert await workers[0].access(ONE, "alice") == known
        assert workers[0].address(ONE) == HERE
        with pytest.raises(Away):
            await workers[0].access(ONE, "bob")
        for each in siblings:
            each.close()


async def test_nobody_is_remembered_as_long_and_pushes_out_nobody_else(
    plane: PlaneInMemory, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering_module, "_MOST", 10)
    await remembering.access(ONE, "alice")
    plane.answer = access(is_known=False)
    for number in range(50):
        await remembering.access(ONE, f"nobody{number}")
    asked = len(plane.asked)
    for name in ("alice", "nobody49"):
        await remembering.access(ONE, name)
    assert len(plane.asked) == asked
    later(monkeypatch, FRESH_SECONDS + 0.1)
    for name in ("alice", "nobody49"):
        await remembering.access(ONE, name)
    assert len(plane.asked) == asked + 2


async def test_a_role_that_is_gone_is_forgotten_also_for_the_time_when_control_is_away(
    plane: PlaneInMemory, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remembering.access(ONE, "alice")
    plane.answer = access(is_known=False)
    later(monkeypatch, FRESH_SECONDS + 0.1)
    await remembering.access(ONE, "alice")
    plane.is_away = True
    assert not (await remembering.access(ONE, "alice")).is_known


async def test_control_can_have_answers_forgotten(plane: PlaneInMemory, remembering: Remembering) -> None:
    await remembering.access(ONE, "alice")
    await remembering.access(OTHER, "alice")
    remembering.keep_address(ONE, HERE)
    remembering.drop([ONE])
    assert remembering.address(ONE) is None
    await remembering.access(OTHER, "alice")
    assert len(plane.asked) == 2
    await remembering.access(ONE, "alice")
    assert len(plane.asked) == 3


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, remembering: Remembering) -> None:
    monkeypatch.setattr(remembering_module, "_MOST", 10)
    for number in range(50):
        remembering.keep_address(EndpointId(f"ep-{number}"), HERE)
    assert sum(remembering.address(EndpointId(f"ep-{number}")) is not None for number in range(50)) == 10
    assert remembering.address(EndpointId("ep-49")) == HERE


async def test_all_who_wait_share_one_wake(plane: PlaneInMemory, remembering: Remembering) -> None:
    waking = Waking(plane, remembering)
    addresses = await asyncio.gather(*(waking.wake(ONE) for _ in range(100)), waking.wake(OTHER))
    assert set(addresses) == {HERE}
    assert sorted(plane.asked) == [("wake", ONE), ("wake", OTHER)]
    await waking.wake(ONE)
    assert len(plane.asked) == 3


async def test_one_who_gives_up_does_not_take_the_wake_from_the_others(
    plane: PlaneInMemory, remembering: Remembering
) -> None:
    waking = Waking(plane, remembering)
    first, second = asyncio.create_task(waking.wake(ONE)), asyncio.create_task(waking.wake(ONE))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == HERE


async def test_a_report_that_control_may_have_heard_is_repeated_with_its_number(
    plane: PlaneInMemory, remembering: Remembering
) -> None:
    activity = Activity(plane, remembering)
    with activity.connection(ONE) as tally:
        tally.bytes_in += 10
        plane.loses_answers = True
        await activity.report()
        tally.bytes_in += 5
        plane.loses_answers = False
        await activity.report()
        await activity.report()
    first, again, rest = plane.heard
    assert first == again
    assert (first.sequence, rest.sequence) == (1, 2)
    assert [(used.bytes_in, used.opened, used.connections) for used in (*first.endpoints, *rest.endpoints)] == [
        (10, 1, 1),
        (5, 0, 1),
    ]


async def test_a_quiet_connection_is_no_activity_and_its_end_is_told(
    plane: PlaneInMemory, remembering: Remembering
) -> None:
    activity = Activity(plane, remembering)
    with activity.connection(ONE):
        await activity.report()
        await activity.report()
        assert len(plane.heard) == 1
        await activity.report(even_when_quiet=True)
        assert not plane.heard[-1].endpoints[0].is_active
    await activity.report()
    assert [used.connections for used in plane.heard[-1].endpoints] == [0]
    await activity.report()
    assert len(plane.heard) == 3
