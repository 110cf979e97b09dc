"""Read replicas: copies of a branch that follow the compute which writes it, through all that may happen to both."""

import asyncio
import json
import shutil

import asyncpg
import pytest

from bough.domain.change import MakeRole
from bough.engine.port import Following
from bough.engine.spec import Follow
from engine.followers import (
    KEEPS_LITTLE,
    eventually,
    follower_of,
    following,
    receiver,
    replica_of,
    shows,
    slot_of,
    slots,
    streams,
    write,
    write_much,
)
from engine.homes import VERIFIER, Compute, Home, branch_of


def born(replica: Compute) -> str:
    """When its copy was made."""
    return str(json.loads((replica.volume / "volume.json").read_text())["at"])


async def test_it_has_what_was_committed_and_what_comes_later(primary: Compute) -> None:
    replica = await replica_of(primary)
    assert await replica.value("select n from numbers") == 1
    await write(primary, 2)
    await shows(replica, 1, 2)
    assert await following(replica) is Following.FOLLOWS


async def test_nobody_writes_to_it(primary: Compute) -> None:
    replica = await replica_of(primary)
    for statement in ("insert into numbers values (2)", "create table mine ()", "create temp table mine ()"):
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError) as refusal:
            await replica.value(statement)
        assert refusal.value.sqlstate == "25006"


async def test_roles_and_databases_come_with_the_rest(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await home.engine.change(branch_of(primary.spec), MakeRole(name="late", verifier=VERIFIER))

    async def knows() -> object:
        return await replica.value("select exists (select from pg_roles where rolname = 'late')")

    await eventually(knows, True)


async def test_several_follow_one(primary: Compute) -> None:
    replicas = list(await asyncio.gather(*(replica_of(primary) for _ in range(3))))
    await write(primary, 2)
    for replica in replicas:
        await shows(replica, 1, 2)
    assert await slots(primary) == {slot_of(replica) for replica in replicas}


async def test_it_is_made_from_a_primary_that_sleeps_and_follows_it_when_that_wakes(primary: Compute) -> None:
    await primary.suspend()
    replica = await replica_of(primary)
    await shows(replica, 1)
    assert await following(replica) is Following.FOLLOWS
    await primary.run()
    await write(primary, 2)
    await shows(replica, 1, 2)


async def test_it_is_made_from_a_primary_that_was_killed(primary: Compute) -> None:
    await primary.kill()
    replica = await replica_of(primary)
    await shows(replica, 1)
    await primary.run()
    await write(primary, 2)
    await shows(replica, 1, 2)


async def test_it_is_made_from_a_branch_that_nobody_opened_yet(primary: Compute, home: Home) -> None:
    child = await home.child(primary)
    replica = await replica_of(child)
    await shows(replica, 1)
    await child.run()
    await write(child, 2)
    await shows(replica, 1, 2)


async def test_it_outlives_the_sleep_of_its_primary(primary: Compute) -> None:
    replica = await replica_of(primary)
    await write(primary, 2)
    await primary.suspend()
    await shows(replica, 1, 2)  # what was written before comes before the end
    assert await following(replica) is Following.FOLLOWS
    await primary.run()
    await write(primary, 3)
    await shows(replica, 1, 2, 3)


async def test_it_does_not_keep_its_primary_awake(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await streams(replica)
    assert not await home.engine.is_busy(primary.spec.endpoint_id)
    assert not await home.engine.is_busy(replica.spec.endpoint_id)


@pytest.mark.parametrize("victim", ["primary", "replica"])
async def test_either_may_be_killed(primary: Compute, victim: str) -> None:
    replica = await replica_of(primary)
    await streams(replica)
    await write(primary, 2)
    killed = primary if victim == "primary" else replica
    await killed.kill()
    await killed.run()
    await write(primary, 3)
    await shows(replica, 1, 2, 3)


async def test_it_is_killed_again_and_again_while_it_begins(primary: Compute) -> None:
    replica = follower_of(primary)
    await write_much(primary, 8)
    for _ in range(3):
        await replica.run()
        await write(primary, 2)
        await replica.kill()
    await replica.run()
    await shows(replica, 1, 2, 2, 2)


async def test_a_restart_of_its_primary_is_not_noticed_by_who_reads(primary: Compute) -> None:
    replica = await replica_of(primary)
    async with replica.connect() as reader:
        await primary.run(settings={**primary.spec.settings, "shared_buffers": "20MB"})
        await write(primary, 2)
        await eventually(lambda: reader.fetchval("select count(*) from numbers"), 2)


async def test_it_sleeps_and_wakes(primary: Compute) -> None:
    replica = await replica_of(primary)
    made = born(replica)
    await replica.suspend()
    await write(primary, 2)
    await replica.run()
    await shows(replica, 1, 2)
    assert born(replica) == made


async def test_it_wakes_with_all_that_its_primary_wrote_before_that_fell_asleep(primary: Compute) -> None:
    """Nobody runs who could send it, so it is handed over."""
    replica = await replica_of(primary)
    await replica.suspend()
    made = born(replica)
    for number in (2, 3):  # the second time within a segment that it has already
        await primary.run()
        await write(primary, number)
        await write_much(primary, 3 - number)
        await primary.suspend()
        await replica.run()
        await shows(replica, *range(1, number + 1))
        assert await following(replica) is Following.FOLLOWS
        await replica.suspend()
    assert born(replica) == made
    await replica.run()
    await primary.run()
    await write(primary, 4)
    await shows(replica, 1, 2, 3, 4)


async def test_what_it_misses_too_long_is_dropped_and_it_begins_anew(home: Home) -> None:
    primary = await home.compute(settings=KEEPS_LITTLE)
    await write(primary, 1)
    replica = await replica_of(primary)
    await replica.suspend()
    made = born(replica)
    await write_much(primary, 24)
    await write(primary, 2)
    lost = await primary.value("select wal_status from pg_replication_slots")
    assert lost == "lost"
    await replica.run()
    await shows(replica, 1, 2)
    assert born(replica) != made
    await write(primary, 3)
    await shows(replica, 1, 2, 3)
    assert await primary.value("select wal_status from pg_replication_slots") == "reserved"


async def test_it_begins_anew_from_a_primary_that_sleeps(home: Home) -> None:
    primary = await home.compute(settings=KEEPS_LITTLE)
    await write(primary, 1)
    replica = await replica_of(primary)
    await replica.suspend()
    made = born(replica)
    await write_much(primary, 24)
    await write(primary, 2)
    await primary.suspend()
    await replica.run()
    await shows(replica, 1, 2)
    assert born(replica) != made
    await primary.run()
    await write(primary, 3)
    await shows(replica, 1, 2, 3)


async def test_while_it_runs_it_is_known_whether_it_waits_or_is_lost(home: Home) -> None:
    primary = await home.compute(settings=KEEPS_LITTLE)
    await write(primary, 1)
    replica = await replica_of(primary)
    await streams(replica)
    shutil.rmtree(home.settings.sockets / f"{primary.spec.endpoint_id}.side")
    async with primary.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    await eventually(lambda: receiver(replica), [])
    await write(primary, 2)
    assert await following(replica) is Following.WAITS
    await write_much(primary, 24)
    assert await following(replica) is Following.LOST
    await replica.suspend()
    await replica.absent()
    await replica.run()
    await shows(replica, 1, 2)
    await streams(replica)


async def test_the_side_door_and_the_slot_are_made_again_when_it_is_asked_for(primary: Compute, home: Home) -> None:
    replica = await replica_of(primary)
    await streams(replica)
    shutil.rmtree(home.settings.sockets / f"{primary.spec.endpoint_id}.side")
    async with primary.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        await eventually(lambda: ours.fetchval("select count(*) from pg_stat_replication"), 0)
        await ours.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
    await replica.run()
    await write(primary, 2)
    await shows(replica, 1, 2)


# A branch that nobody writes.


async def test_without_a_primary_it_stands_still_until_it_is_started_again(primary: Compute, home: Home) -> None:
    await primary.suspend()
    replica = follower_of(primary)
    await replica.run(follows=Follow(volume_id=primary.spec.volume_id, endpoint_id=None))
    await shows(replica, 1)
    assert await replica.value("show primary_conninfo") in ("", None)
    await home.engine.change(branch_of(primary.spec), MakeRole(name="late", verifier=VERIFIER))
    assert await following(replica) is Following.BEHIND
    await replica.suspend()
    await replica.run()
    assert await following(replica) is Following.FOLLOWS

    async def knows() -> object:
        return await replica.value("select exists (select from pg_roles where rolname = 'late')")

    await eventually(knows, True)


async def test_a_primary_that_comes_is_followed_without_a_restart(primary: Compute) -> None:
    await primary.suspend()
    replica = follower_of(primary)
    await replica.run(follows=Follow(volume_id=primary.spec.volume_id, endpoint_id=None))
    pid = replica.pid
    await primary.run()
    await replica.run(follows=Follow(volume_id=primary.spec.volume_id, endpoint_id=primary.spec.endpoint_id))
    await write(primary, 2)
    await shows(replica, 1, 2)
    assert replica.pid == pid


async def test_it_leaves_a_volume_that_is_no_longer_its_branchs(primary: Compute, home: Home) -> None:
    """As after a restore: the branch has another volume, and the endpoint stays."""
    replica = await replica_of(primary)
    other = await home.child(primary)
    await other.run()
    await write(other, 5)
    await replica.run(follows=Follow(volume_id=other.spec.volume_id, endpoint_id=other.spec.endpoint_id))
    await shows(replica, 1, 5)
    await write(other, 6)
    await shows(replica, 1, 5, 6)
