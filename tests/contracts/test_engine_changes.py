"""Changes inside a branch, tested through the port only, on every volume driver."""

import asyncio
from dataclasses import replace

import pytest

from bough.domain.catalog_change import (
    AlterDatabase,
    CreateDatabase,
    CreateRole,
    DisableSubscriptions,
    DropDatabase,
    DropRole,
    ReplacePasswords,
    SetPassword,
)
from bough.engine.port import BranchContents, Engine, EngineError, ObservedDatabase, ObservedRole, Readiness
from bough.engine.spec import ComputeSpec
from bough.postgres.scram import scram_verifier
from contracts.engines import connect, create_child, start_compute
from support.engine_home import DATABASE, ROLE, VERIFIER, make_branch_spec

OTHER = scram_verifier("another")
OWNER = ObservedRole(name=ROLE, can_login=True, verifier=VERIFIER, valid_until=None)
CHANGES = (
    CreateRole(name="writer", verifier=VERIFIER),
    CreateRole(name="readers", can_login=False),
    CreateRole(name="gone", verifier=VERIFIER),
    SetPassword(name="writer", verifier=OTHER),
    CreateDatabase(name="diary", owner="gone"),
    CreateDatabase(name="waste", owner=ROLE),
    AlterDatabase(name="diary", new_name="book", owner="writer"),
    DropDatabase(name="waste"),
    DropRole(name="gone"),
)
CHANGED = BranchContents(
    roles=(
        OWNER,
        ObservedRole(name="readers", can_login=False, verifier=None, valid_until=None),
        ObservedRole(name="writer", can_login=True, verifier=OTHER, valid_until=None),
    ),
    databases=(ObservedDatabase(name="book", owner="writer"), ObservedDatabase(name=DATABASE, owner=ROLE)),
)


async def make_changes(engine: Engine, spec: ComputeSpec) -> None:
    """Apply each change twice, because changes are idempotent."""
    for change in CHANGES:
        await engine.apply_change(make_branch_spec(spec), change)
        await engine.apply_change(make_branch_spec(spec), change)


async def test_a_running_branch_is_changed_under_its_clients(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await make_changes(engine, spec)
        assert await db.fetchval("select 1") == 1, "the session continues"
    assert await engine.read_compute_contents(spec.endpoint_id) == CHANGED
    async with await connect(engine, spec, "writer", "book") as db:
        await db.execute("create table mine ()")


async def test_a_sleeping_branch_is_changed_and_sleeps_on(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    await make_changes(engine, spec)
    observation = await engine.observe()
    assert spec.endpoint_id not in observation.running_endpoints
    assert observation.spare_endpoints == frozenset()
    assert await engine.find_address(spec.endpoint_id) is None
    assert await engine.ensure_running(replace(spec, roles=(), databases=())) is Readiness.READY
    assert await engine.read_compute_contents(spec.endpoint_id) == CHANGED


async def test_a_branch_that_no_endpoint_ever_served_is_changed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    child = await create_child(engine, spec)
    await make_changes(engine, child)
    assert await engine.ensure_running(replace(child, roles=(), databases=())) is Readiness.READY
    assert await engine.read_compute_contents(child.endpoint_id) == CHANGED
    contents = await engine.read_compute_contents(spec.endpoint_id)
    assert contents == BranchContents(roles=(OWNER,), databases=(ObservedDatabase(name=DATABASE, owner=ROLE),))


async def test_a_new_branch_is_changed_before_its_first_start(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(make_branch_spec(spec))
    await make_changes(engine, spec)
    assert await engine.ensure_running(spec) is Readiness.READY
    assert await engine.read_compute_contents(spec.endpoint_id) == CHANGED


async def test_a_rekeyed_child_opens_to_the_new_passwords_only(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute(f"create role made login password '{VERIFIER}'; create role grouped password '{VERIFIER}'")
    child = await create_child(engine, spec)
    for _ in range(2):
        await engine.apply_change(
            make_branch_spec(child), ReplacePasswords(verifiers={ROLE: OTHER, "dropped meanwhile": OTHER})
        )
    assert await engine.ensure_running(replace(child, roles=(), databases=())) is Readiness.READY
    contents = await engine.read_compute_contents(child.endpoint_id)
    assert contents is not None
    assert {role.name: role.verifier for role in contents.roles} == {ROLE: OTHER, "made": None, "grouped": None}
    parents = await engine.read_compute_contents(spec.endpoint_id)
    assert parents is not None
    assert {role.verifier for role in parents.roles} == {VERIFIER}


async def test_a_branch_without_subscriptions_is_left_as_it_is(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    before = await engine.read_compute_contents(spec.endpoint_id)
    await engine.apply_change(make_branch_spec(spec), DisableSubscriptions())
    assert await engine.read_compute_contents(spec.endpoint_id) == before


async def test_changes_and_wakes_that_come_at_once_wait_for_one_another(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    changes = [
        engine.apply_change(make_branch_spec(spec), CreateRole(name=f"role {n}", verifier=VERIFIER)) for n in range(3)
    ]
    readiness, *_ = await asyncio.gather(engine.ensure_running(spec), *changes)
    assert readiness is Readiness.READY
    contents = await engine.read_compute_contents(spec.endpoint_id)
    assert contents is not None
    assert {role.name for role in contents.roles} == {ROLE, "role 0", "role 1", "role 2"}


async def test_what_postgres_refuses_for_good_is_told_in_its_words(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    for change, words in (
        (CreateDatabase(name="shop", owner="nobody"), 'role "nobody" does not exist'),
        (CreateDatabase(name=DATABASE, owner="nobody"), 'role "nobody" does not exist'),
        (AlterDatabase(name=DATABASE, new_name="shop", owner="nobody"), 'role "nobody" does not exist'),
        (AlterDatabase(name="nowhere", new_name="shop", owner=ROLE), "has no database nowhere"),
        (SetPassword(name="nobody", verifier=VERIFIER), "has no role nobody"),
        (DropRole(name=ROLE), f"owns the database {DATABASE}"),
    ):
        with pytest.raises(EngineError, match=words) as refused:
            await engine.apply_change(make_branch_spec(spec), change)
        assert not refused.value.transient
    assert (await engine.read_compute_contents(spec.endpoint_id)) == BranchContents(
        roles=(OWNER,), databases=(ObservedDatabase(name=DATABASE, owner=ROLE),)
    )
    async with await connect(engine, spec) as db:
        assert await db.fetchval("select 1") == 1, "no client was disconnected"


async def test_a_branch_that_is_not_there_is_not_changed(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await engine.apply_change(make_branch_spec(spec), CreateRole(name="writer"))
    assert not refused.value.transient
