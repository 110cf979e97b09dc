"""What a read replica needs of whom it follows: room for what that has, a slot, a way in; and what stays of it."""

import asyncio

import pytest

from bough.domain.change import MakeRole
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError, Following, Readiness
from bough.engine.spec import compute_settings
from bough.ids import EndpointId
from bough.postgres import ADMIN
from engine.consistency import Machine
from engine.followers import (
    eventually,
    follower_of,
    following,
    numbers,
    replica_of,
    shows,
    slot_of,
    slots,
    streams,
    write,
)
from engine.homes import VERIFIER, Compute, Home, branch_of


def larger(compute: Compute) -> dict[str, str]:
    return {**compute.spec.settings, "max_connections": "150", "max_worker_processes": "12"}


async def test_a_primary_that_grows_is_followed_by_a_replica_that_grew_before(primary: Compute) -> None:
    replica = await replica_of(primary)
    await replica.run(settings=larger(primary))
    await primary.run(settings=larger(primary))
    await write(primary, 2)
    await shows(replica, 1, 2)


async def test_one_that_did_not_grow_stands_still_and_is_mended_by_a_restart(primary: Compute) -> None:
    replica = await replica_of(primary)
    await streams(replica)
    await primary.run(settings=larger(primary))
    await write(primary, 2)
    await eventually(lambda: following(replica), Following.BEHIND)
    await replica.suspend()
    await replica.run()
    await shows(replica, 1, 2)
    assert await replica.value("show max_connections") == "150"


async def test_a_change_while_its_primary_sleeps_comes_through(primary: Compute, home: Home) -> None:
    """It is made by a compute of ours that has more of some things than either; the replica may stop at that."""
    replica = await replica_of(primary)
    await primary.suspend()
    await home.engine.change(branch_of(primary.spec), MakeRole(name="late", verifier=VERIFIER))
    await primary.run()
    await write(primary, 2)
    await eventually(lambda: stands_or_has_all(replica, 2), True)
    if await following(replica) is Following.BEHIND:
        await replica.suspend()
        await replica.run()
    await shows(replica, 1, 2)
    assert await replica.value("select exists (select from pg_roles where rolname = 'late')")


async def stands_or_has_all(replica: Compute, count: int) -> bool:
    return await following(replica) is Following.BEHIND or len(await numbers(replica)) == count


async def test_one_that_shrinks_with_its_primary_waits_until_it_has_heard_of_that(primary: Compute) -> None:
    small = primary.spec.settings
    await primary.run(settings=larger(primary))
    replica = await replica_of(primary)
    await replica.suspend()
    await primary.run(settings=small)
    await write(primary, 2)
    await primary.kill()  # so that nothing can be handed over: all that it has was written by the larger one
    await replica.run(settings=small)
    assert await replica.value("show max_connections") == "150"
    await primary.run()
    await shows(replica, 1, 2)
    await replica.run()
    assert await replica.value("show max_connections") == small["max_connections"]


async def test_one_that_was_killed_learns_on_the_way_what_it_needs(primary: Compute) -> None:
    """Neither of the two is larger now, but what it must read again was written while its primary was."""
    small = primary.spec.settings
    replica = await replica_of(primary)
    await streams(replica)
    await replica.suspend()
    await primary.run(settings=larger(primary))
    await replica.run(settings=larger(primary))
    await write(primary, 2)
    await primary.run(settings=small)
    await write(primary, 3)
    await shows(replica, 1, 2, 3)
    await replica.kill()
    assert await replica.run(settings=small) is Readiness.READY
    await shows(replica, 1, 2, 3)


# What stays, and what goes.


async def test_a_replica_that_is_deleted_leaves_nothing(primary: Compute, home: Home) -> None:
    machine = Machine(home.settings)
    stays, goes = await replica_of(primary), await replica_of(primary)
    await streams(goes)
    await goes.suspend()
    await goes.absent()
    assert await slots(primary) == {slot_of(stays)}
    assert goes.spec.volume_id not in (await home.engine.observe()).volumes
    assert machine.disorder() == []
    await write(primary, 2)
    await shows(stays, 1, 2)


async def test_of_one_that_was_deleted_while_its_primary_slept_no_slot_stays(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await primary.suspend()
    await replica.suspend()
    await replica.absent()
    await primary.run(replicas=())
    assert await slots(primary) == set()
    await primary.suspend()
    assert Machine(home.settings).disorder() == []


async def test_a_slot_of_a_tenant_is_not_touched(primary: Compute) -> None:
    await primary.value("select pg_create_physical_replication_slot('theirs', true)", ADMIN)
    replica = await replica_of(primary)
    await primary.suspend()
    await primary.run(replicas=())
    assert await slots(primary) == {"theirs"}
    await primary.run(replicas=(replica.spec.volume_id,))
    assert await slots(primary) == {"theirs", slot_of(replica)}


async def test_without_a_slot_left_it_says_what_to_do_and_its_primary_goes_on(home: Home) -> None:
    settings = {**compute_settings(0.25, logical_replication=False), "max_replication_slots": "1"}
    primary = await home.compute(settings=settings)
    await primary.value("select pg_create_physical_replication_slot('theirs', true)", ADMIN)
    replica = follower_of(primary)
    with pytest.raises(EngineError, match="raise max_replication_slots"):
        await replica.run()
    assert await primary.run() is Readiness.READY
    await primary.value("select pg_drop_replication_slot('theirs')", ADMIN)
    await replica.run()
    await streams(replica)


async def test_a_branch_of_a_branch_with_replicas_is_a_branch_like_any_other(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await streams(replica)
    child = await home.child(primary)
    await child.run(replicas=())
    await write(child, 2)
    assert await slots(child) == set()
    assert not await child.value("select pg_is_in_recovery()")
    own = await replica_of(child)  # its role has the parent's password, until it is told its own
    await shows(own, 1, 2)
    await streams(own)


async def test_another_control_finds_it_as_it_was(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    pid = replica.pid
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert {primary.spec.endpoint_id, replica.spec.endpoint_id} <= (await home.engine.observe()).running
    await replica.run()
    assert replica.pid == pid
    await write(primary, 2)
    await shows(replica, 1, 2)


async def test_a_start_that_was_cut_off_anywhere_may_be_repeated(primary: Compute) -> None:
    replica = follower_of(primary)
    for seconds in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2):
        start = asyncio.create_task(replica.run())
        await asyncio.sleep(seconds)
        start.cancel()
        await asyncio.wait([start])
    assert await replica.run() is Readiness.READY
    await write(primary, 2)
    await shows(replica, 1, 2)


async def test_how_far_behind_it_is(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await write(primary, 2)
    await shows(replica, 1, 2)
    used = await home.engine.usage(replica.spec.endpoint_id)
    assert used is not None and used.wal_position is None
    assert (used.replica_lag_bytes, used.replica_lag_seconds) == (0, 0.0)
    async with replica.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_wal_replay_pause()")
        await write(primary, 3)
        used = await home.engine.usage(replica.spec.endpoint_id)
        assert used is not None and used.replica_lag_bytes and used.replica_lag_seconds
        await ours.execute("select pg_wal_replay_resume()")
    await shows(replica, 1, 2, 3)
    await primary.suspend()
    await eventually(lambda: lag(replica), (0, 0.0))


async def lag(replica: Compute) -> tuple[int | None, float | None] | None:
    used = await replica.home.engine.usage(replica.spec.endpoint_id)
    return (used.replica_lag_bytes, used.replica_lag_seconds) if used else None


async def test_a_primary_has_no_lag_and_follows_nobody(primary: Compute, home: Home) -> None:
    used = await home.engine.usage(primary.spec.endpoint_id)
    assert used is not None and used.replica_lag_bytes is None
    assert await following(primary) is None
    assert await home.engine.following(EndpointId.new()) is None


async def test_a_primary_that_an_older_version_started_lets_it_in(primary: Compute) -> None:
    """Its rules know no replication yet, and it goes on running."""
    rules, pid = primary.volume / "conf" / "pg_hba.conf", primary.pid
    rules.write_text("local all all peer map=bough\n")
    async with primary.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_reload_conf()")
    replica = await replica_of(primary)
    await streams(replica)
    assert primary.pid == pid


async def test_the_older_postgres_of_the_machine_does_it_too(home: Home) -> None:
    if 15 not in home.engine.capabilities().installs:
        pytest.skip("there is no Postgres 15 on this machine")
    primary = await home.compute(15)
    await write(primary, 1)
    replica = await replica_of(primary)
    await replica.suspend()
    await write(primary, 2)
    await primary.suspend()
    await replica.run()
    await shows(replica, 1, 2)
    await primary.run()
    await write(primary, 3)
    await shows(replica, 1, 2, 3)
