"""Read replicas: copies of a branch that follow its read-write compute, through restarts and crashes of both."""

import asyncio
import json
import shutil

import asyncpg
import pytest

from bough.domain.catalog_change import CreateRole
from bough.engine.local.computes import wal_segments
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.port import ReplicaState
from bough.engine.spec import PrimarySpec
from bough.postgres import wal
from support.engine_home import VERIFIER, Compute, EngineHome, make_branch_spec
from support.replicas import (
    SMALL_SLOT_SETTINGS,
    get_replication_state,
    insert_numbers,
    list_slots,
    plan_replica,
    read_wal_receiver_status,
    slot_name_of,
    start_replica,
    wait_for_numbers,
    wait_until_equal,
    wait_until_streaming,
    write_wal,
)


def read_created_at(replica: Compute) -> str:
    """Return when its copy was created."""
    return str(json.loads((replica.volume_folder / "volume.json").read_text())["at"])


async def test_it_has_what_was_committed_and_what_comes_later(primary: Compute) -> None:
    replica = await start_replica(primary)
    assert await replica.fetch_value("select n from numbers") == 1
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)
    assert await get_replication_state(replica) is ReplicaState.FOLLOWING


async def test_nobody_writes_to_it(primary: Compute) -> None:
    replica = await start_replica(primary)
    for statement in ("insert into numbers values (2)", "create table mine ()", "create temp table mine ()"):
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError) as refusal:
            await replica.fetch_value(statement)
        assert refusal.value.sqlstate == "25006"


async def test_roles_and_databases_come_with_the_rest(primary: Compute, home: EngineHome) -> None:
    replica = await start_replica(primary)
    await home.engine.apply_change(make_branch_spec(primary.spec), CreateRole(name="late", verifier=VERIFIER))

    async def has_role() -> object:
        return await replica.fetch_value("select exists (select from pg_roles where rolname = 'late')")

    await wait_until_equal(has_role, True)


async def test_several_follow_one(primary: Compute) -> None:
    replicas = list(await asyncio.gather(*(start_replica(primary) for _ in range(3))))
    await insert_numbers(primary, 2)
    for replica in replicas:
        await wait_for_numbers(replica, 1, 2)
    assert await list_slots(primary) == {slot_name_of(replica) for replica in replicas}


async def test_it_is_made_from_a_primary_that_sleeps_and_follows_it_when_that_wakes(primary: Compute) -> None:
    await primary.suspend()
    replica = await start_replica(primary)
    await wait_for_numbers(replica, 1)
    assert await get_replication_state(replica) is ReplicaState.FOLLOWING
    await primary.start()
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_it_is_made_from_a_primary_that_was_killed(primary: Compute) -> None:
    await primary.kill()
    replica = await start_replica(primary)
    await wait_for_numbers(replica, 1)
    await primary.start()
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_it_is_made_from_a_branch_that_nobody_opened_yet(primary: Compute, home: EngineHome) -> None:
    child = await home.create_child(primary)
    replica = await start_replica(child)
    await wait_for_numbers(replica, 1)
    await child.start()
    await insert_numbers(child, 2)
    await wait_for_numbers(replica, 1, 2)


async def test_it_outlives_the_sleep_of_its_primary(primary: Compute) -> None:
    replica = await start_replica(primary)
    await insert_numbers(primary, 2)
    await primary.suspend()
    await wait_for_numbers(replica, 1, 2)  # earlier WAL is replayed before the end
    assert await get_replication_state(replica) is ReplicaState.FOLLOWING
    await primary.start()
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)


async def test_it_does_not_keep_its_primary_awake(primary: Compute, home: EngineHome) -> None:
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    assert not await home.engine.is_busy(primary.spec.endpoint_id)
    assert not await home.engine.is_busy(replica.spec.endpoint_id)


@pytest.mark.parametrize("victim", ["primary", "replica"])
async def test_either_may_be_killed(primary: Compute, victim: str) -> None:
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    await insert_numbers(primary, 2)
    killed = primary if victim == "primary" else replica
    await killed.kill()
    await killed.start()
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)


async def test_it_is_killed_again_and_again_while_it_begins(primary: Compute) -> None:
    replica = plan_replica(primary)
    await write_wal(primary, 8)
    for _ in range(3):
        await replica.start()
        await insert_numbers(primary, 2)
        await replica.kill()
    await replica.start()
    await wait_for_numbers(replica, 1, 2, 2, 2)


async def test_a_restart_of_its_primary_is_not_noticed_by_who_reads(primary: Compute) -> None:
    replica = await start_replica(primary)
    async with replica.connect() as reader:
        await primary.start(settings={**primary.spec.settings, "shared_buffers": "20MB"})
        await insert_numbers(primary, 2)
        await wait_until_equal(lambda: reader.fetchval("select count(*) from numbers"), 2)


async def test_it_sleeps_and_wakes(primary: Compute) -> None:
    replica = await start_replica(primary)
    made = read_created_at(replica)
    await replica.suspend()
    await insert_numbers(primary, 2)
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert read_created_at(replica) == made


async def test_it_wakes_with_all_that_its_primary_wrote_before_that_fell_asleep(primary: Compute) -> None:
    """No primary runs that could stream the WAL, so its segments are copied."""
    replica = await start_replica(primary)
    await replica.suspend()
    made = read_created_at(replica)
    for number in (2, 3):  # the second time within a segment that the replica already has
        await primary.start()
        await insert_numbers(primary, number)
        await write_wal(primary, 3 - number)
        await primary.suspend()
        await replica.start()
        await wait_for_numbers(replica, *range(1, number + 1))
        assert await get_replication_state(replica) is ReplicaState.FOLLOWING
        await replica.suspend()
    assert read_created_at(replica) == made
    await replica.start()
    await primary.start()
    await insert_numbers(primary, 4)
    await wait_for_numbers(replica, 1, 2, 3, 4)


async def test_what_it_misses_too_long_is_dropped_and_it_begins_anew(home: EngineHome) -> None:
    primary = await home.create_compute(settings=SMALL_SLOT_SETTINGS)
    await insert_numbers(primary, 1)
    replica = await start_replica(primary)
    await replica.suspend()
    made = read_created_at(replica)
    await write_wal(primary, 24)
    await insert_numbers(primary, 2)
    lost = await primary.fetch_value("select wal_status from pg_replication_slots")
    assert lost == "lost"
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert read_created_at(replica) != made
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)
    assert await primary.fetch_value("select wal_status from pg_replication_slots") == "reserved"


async def test_it_begins_anew_from_a_primary_that_sleeps(home: EngineHome) -> None:
    primary = await home.create_compute(settings=SMALL_SLOT_SETTINGS)
    await insert_numbers(primary, 1)
    replica = await start_replica(primary)
    await replica.suspend()
    made = read_created_at(replica)
    await write_wal(primary, 24)
    await insert_numbers(primary, 2)
    await primary.suspend()
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert read_created_at(replica) != made
    await primary.start()
    await insert_numbers(primary, 3)
    await wait_for_numbers(replica, 1, 2, 3)


async def test_while_it_runs_it_is_known_whether_it_waits_or_is_lost(home: EngineHome) -> None:
    primary = await home.create_compute(settings=SMALL_SLOT_SETTINGS)
    await insert_numbers(primary, 1)
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    shutil.rmtree(home.settings.sockets / f"{primary.spec.endpoint_id}.side")
    async with primary.connect("bough_admin", "postgres") as admin:
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    await wait_until_equal(lambda: read_wal_receiver_status(replica), [])
    await insert_numbers(primary, 2)
    assert await get_replication_state(replica) is ReplicaState.WAITING
    await write_wal(primary, 24)
    assert await get_replication_state(replica) is ReplicaState.LOST
    await replica.suspend()
    await replica.delete()
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    await wait_until_streaming(replica)


async def test_the_side_door_and_the_slot_are_made_again_when_it_is_asked_for(
    primary: Compute, home: EngineHome
) -> None:
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    shutil.rmtree(home.settings.sockets / f"{primary.spec.endpoint_id}.side")
    async with primary.connect("bough_admin", "postgres") as admin:
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        await wait_until_equal(lambda: admin.fetchval("select count(*) from pg_stat_replication"), 0)
        await admin.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
    await replica.start()
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)


# A branch without a read-write compute.


async def test_without_a_primary_it_stands_still_until_it_is_started_again(primary: Compute, home: EngineHome) -> None:
    await primary.suspend()
    replica = plan_replica(primary)
    await replica.start(primary=PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=None))
    await wait_for_numbers(replica, 1)
    assert await replica.fetch_value("show primary_conninfo") in ("", None)
    await home.engine.apply_change(make_branch_spec(primary.spec), CreateRole(name="late", verifier=VERIFIER))
    assert await get_replication_state(replica) is ReplicaState.BEHIND
    await replica.suspend()
    await replica.start()
    assert await get_replication_state(replica) is ReplicaState.FOLLOWING

    async def has_role() -> object:
        return await replica.fetch_value("select exists (select from pg_roles where rolname = 'late')")

    await wait_until_equal(has_role, True)


async def test_it_is_created_again_when_the_rest_of_its_last_segment_is_gone(
    primary: Compute, home: EngineHome
) -> None:
    """Without a slot, a server removes a segment once it is archived, and the replica has only the beginning of it."""
    await primary.suspend()
    replica = plan_replica(primary)
    await replica.start(primary=PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=None))
    await replica.suspend()
    created_at = read_created_at(replica)
    segment = read_control_file(primary.data_folder).first_segment
    await home.engine.apply_change(make_branch_spec(primary.spec), CreateRole(name="late", verifier=VERIFIER))
    (primary.data_folder / "pg_wal" / segment).unlink(missing_ok=True)
    assert wal_segments.has_segment(primary.data_folder / "pg_wal", wal.next_segment(segment))
    await replica.start()
    assert await replica.fetch_value("select exists (select from pg_roles where rolname = 'late')")
    assert read_created_at(replica) != created_at


async def test_a_primary_that_comes_is_followed_without_a_restart(primary: Compute) -> None:
    await primary.suspend()
    replica = plan_replica(primary)
    await replica.start(primary=PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=None))
    pid = replica.pid
    await primary.start()
    await replica.start(primary=PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=primary.spec.endpoint_id))
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)
    assert replica.pid == pid


async def test_it_leaves_a_volume_that_is_no_longer_its_branchs(primary: Compute, home: EngineHome) -> None:
    """As after a restore: the branch has another volume, and the endpoint stays."""
    replica = await start_replica(primary)
    other = await home.create_child(primary)
    await other.start()
    await insert_numbers(other, 5)
    await replica.start(primary=PrimarySpec(volume_id=other.spec.volume_id, endpoint_id=other.spec.endpoint_id))
    await wait_for_numbers(replica, 1, 5)
    await insert_numbers(other, 6)
    await wait_for_numbers(replica, 1, 5, 6)
