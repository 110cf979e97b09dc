"""Read-only computes: nothing can be written, nothing is lost, and they become writable again."""

from dataclasses import replace

import asyncpg
import pytest

from bough.domain.catalog_change import SetPassword
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.port import EngineError, Readiness, ReplicaState
from bough.engine.spec import RoleSpec, build_compute_settings
from bough.postgres.backup import OLD_LABEL_FILE
from bough.postgres.scram import scram_verifier
from engine.test_computes import require_system_15
from support.engine_home import ROLE, Compute, EngineHome, make_branch_spec
from support.replicas import (
    get_replication_state,
    insert_numbers,
    read_numbers,
    start_replica,
    wait_for_numbers,
    wait_until_equal,
)

OTHER = scram_verifier("another")


async def make_read_only(compute: Compute) -> None:
    assert await compute.start(is_read_only=True) is Readiness.READY


async def write_again(compute: Compute, number: int) -> None:
    assert await compute.start(is_read_only=False) is Readiness.READY
    await insert_numbers(compute, number)


async def check_read_only(compute: Compute) -> None:
    """Whatever a client sets."""
    async with compute.connect() as client:
        await client.execute("set default_transaction_read_only = off")
        for statement in ("insert into numbers values (0)", "create temp table mine ()", "drop table numbers"):
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError) as refusal:
                await client.execute(statement)
            assert refusal.value.sqlstate == "25006"
        with pytest.raises(asyncpg.PostgresError):
            await client.execute("begin read write")


def timeline(compute: Compute) -> int:
    return read_control_file(compute.data_folder).timeline


async def test_nothing_is_written_in_one_and_afterwards_it_goes_on(primary: Compute) -> None:
    before = timeline(primary)
    await make_read_only(primary)
    assert await read_numbers(primary) == [1]
    await check_read_only(primary)
    pid = primary.pid
    await make_read_only(primary)
    assert primary.pid == pid, "ensuring a state that is already reached restarts nothing"
    await write_again(primary, 2)
    assert await read_numbers(primary) == [1, 2]
    assert timeline(primary) == before
    await primary.suspend()
    assert read_control_file(primary.data_folder).state == 1, "a clean shutdown"


@pytest.mark.long
async def test_it_sleeps_and_wakes_as_it_is(primary: Compute) -> None:
    await make_read_only(primary)
    await primary.suspend()
    assert await primary.start() is Readiness.READY
    await check_read_only(primary)
    await primary.suspend()
    await write_again(primary, 2)
    await primary.suspend()
    await make_read_only(primary)
    assert await read_numbers(primary) == [1, 2]


async def test_one_that_was_killed_in_either_state_begins_with_all_that_was_committed(primary: Compute) -> None:
    async with primary.connect() as client:
        for number in range(2, 40):  # transactions with many subtransactions: a standby could not start with these
            await client.execute(f"begin; savepoint s; insert into numbers values ({number}); commit")
    await primary.kill()
    await make_read_only(primary)
    assert await read_numbers(primary) == list(range(1, 40))
    await primary.kill()
    await make_read_only(primary)
    await check_read_only(primary)
    await primary.kill()
    await write_again(primary, 40)
    assert await read_numbers(primary) == list(range(1, 41))


async def test_a_change_is_refused_and_what_postgres_has_to_be_told_is_told_before(
    home: EngineHome, primary: Compute
) -> None:
    await make_read_only(primary)
    with pytest.raises(EngineError, match="read-only transaction") as refusal:
        await home.engine.apply_change(make_branch_spec(primary.spec), SetPassword(name=ROLE, verifier=OTHER))
    assert not refusal.value.transient
    assert await primary.start(roles=(RoleSpec(name=ROLE, verifier=OTHER),)) is Readiness.READY
    verifier = await primary.fetch_value(
        "select rolpassword from pg_authid where rolname = 'neondb_owner'", "bough_admin"
    )
    assert verifier == OTHER
    await check_read_only(primary)


@pytest.mark.parametrize("runs", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_branch_of_one_has_all_and_may_write(home: EngineHome, primary: Compute, runs: bool) -> None:
    await make_read_only(primary)
    if not runs:
        await primary.suspend()
    child = await home.create_child(primary)
    child.spec = replace(child.spec, is_read_only=False)
    assert await child.start() is Readiness.READY
    await insert_numbers(child, 2)
    grandchild = await home.create_child(child)
    grandchild.spec = replace(grandchild.spec, is_read_only=True)
    assert await grandchild.start() is Readiness.READY
    assert await read_numbers(grandchild) == [1, 2]
    await check_read_only(grandchild)
    assert not (grandchild.data_folder / OLD_LABEL_FILE).exists()
    if runs:
        assert await read_numbers(primary) == [1]


async def test_a_replica_follows_through_all_of_it(primary: Compute) -> None:
    replica = await start_replica(primary)
    await primary.start()
    await make_read_only(primary)
    await wait_for_numbers(replica, 1)
    await replica.suspend()
    assert await replica.start() is Readiness.READY
    await wait_until_equal(lambda: get_replication_state(replica), ReplicaState.FOLLOWING)
    await write_again(primary, 2)
    await wait_for_numbers(replica, 1, 2)


@pytest.mark.long
async def test_a_replica_of_one_that_sleeps_has_all(primary: Compute) -> None:
    replica = await start_replica(primary)
    await primary.start()
    await replica.suspend()
    await insert_numbers(primary, 2)
    await make_read_only(primary)
    await primary.suspend()
    assert await replica.start() is Readiness.READY
    await wait_for_numbers(replica, 1, 2)


@pytest.mark.long
async def test_it_has_no_less_of_anything_than_it_needs(primary: Compute) -> None:
    await primary.start(settings={**build_compute_settings(0.25, logical_replication=False), "max_connections": "150"})
    await make_read_only(primary)
    await primary.suspend()
    assert await primary.start(settings=build_compute_settings(0.25, logical_replication=False)) is Readiness.READY
    assert await primary.fetch_value("show max_connections") == "150"
    await write_again(primary, 2)
    assert await primary.fetch_value("show max_connections") == "112"


async def test_what_is_stored_is_told_in_either_state(home: EngineHome, primary: Compute) -> None:
    async def stored() -> int:
        found = await home.engine.measure_storage(primary.spec.endpoint_id)
        assert found is not None
        return found.used_bytes

    empty = await stored()
    assert empty < 2**20, "a new project stores nothing"
    await primary.fetch_value("create table much as select repeat('x', 1000) from generate_series(1, 5000)")
    full = await stored()
    assert full - empty >= 5_000_000
    await primary.fetch_value("create database hidden")
    await primary.fetch_value("alter database hidden is_template true")
    more = await stored()
    assert more - full > 5_000_000, "a further database counts in full, whatever its name"
    await make_read_only(primary)
    assert abs(await stored() - more) < 2**20
    await primary.suspend()
    assert await home.engine.measure_storage(primary.spec.endpoint_id) is None


async def test_an_older_version_tells_it_too(home: EngineHome) -> None:
    require_system_15()
    compute = await home.create_compute(15, storage_limit_bytes=100 * 2**20)
    found = await home.engine.measure_storage(compute.spec.endpoint_id)
    assert found is not None
    assert found.used_bytes < 2**20
    assert found.temp_file_limit_bytes == 64 * 2**20
    assert not await compute.fetch_value("select has_database_privilege('template1', 'connect')")
