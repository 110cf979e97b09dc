"""What a read replica needs from its primary: sufficient settings, a slot and access; and what remains of it."""

import asyncio

import pytest

from bough.domain.catalog_change import CreateRole
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError, Readiness, ReplicaState
from bough.engine.spec import build_compute_settings
from bough.ids import EndpointId
from bough.postgres import ADMIN_ROLE
from support.engine_home import VERIFIER, Compute, EngineHome, make_branch_spec
from support.home_consistency import HomeConsistency
from support.replicas import (
    get_replication_state,
    insert_numbers,
    list_slots,
    plan_replica,
    read_numbers,
    slot_name_of,
    start_replica,
    wait_for_numbers,
    wait_until_equal,
    wait_until_streaming,
)


def enlarge(compute: Compute) -> dict[str, str]:
    return {**compute.spec.settings, "max_connections": "150", "max_worker_processes": "12"}


async def test_a_primary_that_grows_is_followed_by_a_replica_that_grew_before(primary: Compute) -> None:
    replica = await start_replica(primary)
    await replica.start(settings=enlarge(primary))
    await primary.start(settings=enlarge(primary))
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_one_that_did_not_grow_stands_still_and_is_mended_by_a_restart(primary: Compute) -> None:
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    await primary.start(settings=enlarge(primary))
    await insert_numbers(primary, 2)
    await wait_until_equal(lambda: get_replication_state(replica), ReplicaState.BEHIND)
    await replica.suspend()
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert await replica.fetch_value("show max_connections") == "150"


async def test_a_change_while_its_primary_sleeps_comes_through(primary: Compute, home: EngineHome) -> None:
    """A temporary compute creates it with larger settings than either. The replica may stop because of that."""
    replica = await start_replica(primary)
    await primary.suspend()
    await home.engine.apply_change(make_branch_spec(primary.spec), CreateRole(name="late", verifier=VERIFIER))
    await primary.start()
    await insert_numbers(primary, 2)
    await wait_until_equal(lambda: is_paused_or_complete(replica, 2), True)
    if await get_replication_state(replica) is ReplicaState.BEHIND:
        await replica.suspend()
        await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert await replica.fetch_value("select exists (select from pg_roles where rolname = 'late')")


async def is_paused_or_complete(replica: Compute, count: int) -> bool:
    return await get_replication_state(replica) is ReplicaState.BEHIND or len(await read_numbers(replica)) == count


async def test_one_that_shrinks_with_its_primary_waits_until_it_has_heard_of_that(primary: Compute) -> None:
    small = primary.spec.settings
    await primary.start(settings=enlarge(primary))
    replica = await start_replica(primary)
    await replica.suspend()
    await primary.start(settings=small)
    await insert_numbers(primary, 2)
    await primary.kill()  # so that no segment can be copied: everything it has was written with the larger settings
    await replica.start(settings=small)
    assert await replica.fetch_value("show max_connections") == "150"
    await primary.start()
    await wait_for_numbers(replica, 1, 2)
    await replica.start()
    assert await replica.fetch_value("show max_connections") == small["max_connections"]


async def test_one_that_was_killed_learns_on_the_way_what_it_needs(primary: Compute) -> None:
    """Neither is larger now, but the WAL it must replay again was written while its primary was."""
    small = primary.spec.settings
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    await replica.suspend()
    await primary.start(settings=enlarge(primary))
    await replica.start(settings=enlarge(primary))
    await insert_numbers(primary, 2)
    await primary.start(settings=small)
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)
    await replica.kill()
    assert await replica.start(settings=small) is Readiness.READY
    await wait_for_numbers(replica, 1, 2, 3)


# What remains, and what is removed.


async def test_a_replica_that_is_deleted_leaves_nothing(primary: Compute, home: EngineHome) -> None:
    machine = HomeConsistency(home.settings)
    stays, goes = await start_replica(primary), await start_replica(primary)
    await wait_until_streaming(goes)
    await goes.suspend()
    await goes.delete()
    assert await list_slots(primary) == {slot_name_of(stays)}
    assert goes.spec.volume_id not in (await home.engine.observe()).volumes
    assert machine.find_inconsistencies() == []
    await insert_numbers(primary, 2)
    await wait_for_numbers(stays, 1, 2)


async def test_of_one_that_was_deleted_while_its_primary_slept_no_slot_stays(
    primary: Compute, home: EngineHome
) -> None:
    replica = await start_replica(primary)
    await primary.suspend()
    await replica.suspend()
    await replica.delete()
    await primary.start(replica_volumes=())
    assert await list_slots(primary) == set()
    await primary.suspend()
    assert HomeConsistency(home.settings).find_inconsistencies() == []


async def test_a_slot_of_a_tenant_is_not_touched(primary: Compute) -> None:
    await primary.fetch_value("select pg_create_physical_replication_slot('theirs', true)", ADMIN_ROLE)
    replica = await start_replica(primary)
    await primary.suspend()
    await primary.start(replica_volumes=())
    assert await list_slots(primary) == {"theirs"}
    await primary.start(replica_volumes=(replica.spec.volume_id,))
    assert await list_slots(primary) == {"theirs", slot_name_of(replica)}


async def test_without_a_slot_left_it_says_what_to_do_and_its_primary_goes_on(home: EngineHome) -> None:
    settings = {**build_compute_settings(0.25, logical_replication=False), "max_replication_slots": "1"}
    primary = await home.create_compute(settings=settings)
    await primary.fetch_value("select pg_create_physical_replication_slot('theirs', true)", ADMIN_ROLE)
    replica = plan_replica(primary)
    with pytest.raises(EngineError, match="raise max_replication_slots"):
        await replica.start()
    assert await primary.start() is Readiness.READY
    await primary.fetch_value("select pg_drop_replication_slot('theirs')", ADMIN_ROLE)
    await replica.start()
    await wait_until_streaming(replica)


async def test_a_branch_of_a_branch_with_replicas_is_a_branch_like_any_other(
    primary: Compute, home: EngineHome
) -> None:
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    child = await home.create_child(primary)
    await child.start(replica_volumes=())
    await insert_numbers(child, 2)
    assert await list_slots(child) == set()
    assert not await child.fetch_value("select pg_is_in_recovery()")
    own = await start_replica(child)  # its role has the parent's password until its own is applied
    await wait_for_numbers(own, 1, 2)
    await wait_until_streaming(own)


async def test_another_control_finds_it_as_it_was(primary: Compute, home: EngineHome) -> None:
    replica = await start_replica(primary)
    pid = replica.pid
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert {primary.spec.endpoint_id, replica.spec.endpoint_id} <= (await home.engine.observe()).running_endpoints
    await replica.start()
    assert replica.pid == pid
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_a_start_that_was_cut_off_anywhere_may_be_repeated(primary: Compute) -> None:
    replica = plan_replica(primary)
    for seconds in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2):
        start = asyncio.create_task(replica.start())
        await asyncio.sleep(seconds)
        start.cancel()
        await asyncio.wait([start])
    assert await replica.start() is Readiness.READY
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_how_far_behind_it_is(primary: Compute, home: EngineHome) -> None:
    replica = await start_replica(primary)
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)
    used = await home.engine.measure_usage(replica.spec.endpoint_id)
    assert used is not None and used.wal_position is None
    assert (used.replica_lag_bytes, used.replica_lag_seconds) == (0, 0.0)
    async with replica.connect("bough_admin", "postgres") as admin:
        await admin.execute("select pg_wal_replay_pause()")
        await insert_numbers(primary, 3)
        used = await home.engine.measure_usage(replica.spec.endpoint_id)
        assert used is not None and used.replica_lag_bytes and used.replica_lag_seconds
        await admin.execute("select pg_wal_replay_resume()")
    await wait_for_numbers(replica, 1, 2, 3)
    await primary.suspend()
    await wait_until_equal(lambda: lag(replica), (0, 0.0))


async def lag(replica: Compute) -> tuple[int | None, float | None] | None:
    used = await replica.home.engine.measure_usage(replica.spec.endpoint_id)
    return (used.replica_lag_bytes, used.replica_lag_seconds) if used else None


async def test_a_primary_has_no_lag_and_follows_nobody(primary: Compute, home: EngineHome) -> None:
    used = await home.engine.measure_usage(primary.spec.endpoint_id)
    assert used is not None and used.replica_lag_bytes is None
    assert await get_replication_state(primary) is None
    assert await home.engine.read_replica_state(EndpointId.new()) is None


async def test_a_primary_that_an_older_version_started_lets_it_in(primary: Compute) -> None:
    """Its pg_hba.conf does not allow replication yet, and it keeps running."""
    rules, pid = primary.volume_folder / "conf" / "pg_hba.conf", primary.pid
    rules.write_text("local all all peer map=bough\n")
    async with primary.connect("bough_admin", "postgres") as admin:
        await admin.execute("select pg_reload_conf()")
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    assert primary.pid == pid


async def test_the_older_postgres_of_the_machine_does_it_too(home: EngineHome) -> None:
    if 15 not in home.engine.capabilities().installs:
        pytest.skip("there is no Postgres 15 on this machine")
    primary = await home.create_compute(15)
    await insert_numbers(primary, 1)
    replica = await start_replica(primary)
    await replica.suspend()
    await insert_numbers(primary, 2)
    await primary.suspend()
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    await primary.start()
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)
