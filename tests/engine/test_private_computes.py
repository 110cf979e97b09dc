"""Temporary computes: changes made through them, their invisibility, and cleanup after a crash."""

import asyncio
import json
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from bough.cli import orphaned_computes
from bough.domain.catalog_change import CreateDatabase, CreateRole, DisableSubscriptions
from bough.engine.local.computes import changes, running
from bough.engine.local.computes import temporary_computes as private_computes
from bough.engine.local.computes.pid_file import READY
from bough.engine.local.computes.runs import temporary_name
from bough.engine.port import EngineError, Origin, Readiness
from bough.engine.spec import DatabaseSpec, RoleSpec, build_compute_settings
from engine.control_child import CallArguments
from engine.control_process import ControlKilled, ControlProcess
from engine.test_computes import begin_to_stop
from engine.test_killed_control import another_control
from engine.warm_home import WarmHome
from support.engine_home import (
    DATABASE,
    ROLE,
    VERIFIER,
    Compute,
    EngineHome,
    home_on_driver,
    make_branch_spec,
    process_exists,
)
from support.folders import reserve_uid_range
from support.home_consistency import HomeConsistency
from support.platform import install_templates

WRITER = CreateRole(name="writer", verifier=VERIFIER)


async def change(compute: Compute, catalog_change: CreateRole | CreateDatabase | DisableSubscriptions = WRITER) -> None:
    await compute.home.engine.apply_change(make_branch_spec(compute.spec), catalog_change)


async def roles(compute: Compute) -> set[str]:
    contents = await compute.home.engine.read_compute_contents(compute.spec.endpoint_id)
    assert contents is not None
    return {role.name for role in contents.roles}


def start_temporary(compute: Compute) -> AbstractAsyncContextManager[Path]:
    engine = compute.home.engine
    return engine._components.temporary.start_on(
        make_branch_spec(compute.spec), engine._components.install_catalog.list_serving()[compute.spec.install]
    )


def run_file(compute: Compute) -> Path:
    return compute.home.settings.home / "run" / f"{temporary_name(compute.spec.volume_id)}.json"


async def left_by_a_crash(compute: Compute) -> int:
    """Start a temporary compute that its creator never stops. Return its pid."""
    engine = compute.home.engine
    spec = private_computes._spec(make_branch_spec(compute.spec), {})
    install = await engine._components.install_catalog.require_install(compute.spec.install)
    await engine._components.temporary._start(spec, install)
    return compute.pid


async def test_nobody_sees_it_and_nothing_is_left_of_it(home: EngineHome) -> None:
    compute = await home.create_branch()
    before = await home.engine.observe()
    async with start_temporary(compute):
        seen = await home.engine.observe()
        assert (seen.running_endpoints, seen.spare_endpoints, seen.volumes) == (
            before.running_endpoints,
            before.spare_endpoints,
            before.volumes,
        )
        assert await compute.get_address() is None
        assert run_file(compute).exists()
    assert not (compute.data_folder / "postmaster.pid").exists()
    name = temporary_name(compute.spec.volume_id)
    assert not [path for path in home.settings.home.rglob(f"*{name}*") if "proc" not in path.parts]
    assert not (home.settings.sockets / name).exists()


async def test_one_that_a_killed_control_left_is_stopped_by_the_next(home: EngineHome) -> None:
    compute = await home.create_branch()
    pid = await left_by_a_crash(compute)
    await another_control(home)
    assert not process_exists(pid)
    assert not run_file(compute).exists()
    assert await compute.start() is Readiness.READY
    assert await roles(compute) == {ROLE}


async def test_one_whose_pid_was_never_noted_is_stopped_too(home: EngineHome) -> None:
    compute = await home.create_branch()
    pid = await left_by_a_crash(compute)
    run_file(compute).write_text(json.dumps({**json.loads(run_file(compute).read_text()), "pid": None}))
    (compute.data_folder / "postmaster.pid").unlink()
    await another_control(home)
    assert not process_exists(pid)


async def test_one_that_was_left_is_in_nobodys_way(home: EngineHome) -> None:
    compute = await home.create_branch()
    pid = await left_by_a_crash(compute)
    await change(compute)
    assert not process_exists(pid)
    pid = await left_by_a_crash(compute)
    child = await home.create_child(compute)
    assert not process_exists(pid)
    pid = await left_by_a_crash(compute)
    assert await compute.start() is Readiness.READY
    assert not process_exists(pid)
    assert await roles(compute) == {ROLE, "writer"}
    pid = await left_by_a_crash(child)
    await child.delete()
    assert not process_exists(pid)
    assert not run_file(child).exists()


async def test_one_that_lost_its_run_is_in_nobodys_way(home: EngineHome) -> None:
    compute = await home.create_branch()
    pid = await left_by_a_crash(compute)
    run_file(compute).unlink()
    assert await compute.start() is Readiness.READY
    assert not process_exists(pid)
    await compute.suspend()
    await left_by_a_crash(compute)
    run_file(compute).unlink()
    await compute.delete()
    assert not compute.volume_folder.exists()
    assert not (home.settings.sockets / temporary_name(compute.spec.volume_id)).exists()


def test_down_stops_it_when_nobody_else_does() -> None:
    with home_on_driver("plain") as settings:

        async def leave_one() -> int:
            async with EngineHome.open(settings) as home:
                compute = await home.create_branch()
                pid = await left_by_a_crash(compute)
                home.computes.clear()
                return pid

        pid = asyncio.run(leave_one())
        assert process_exists(pid)
        assert orphaned_computes.stop_all(settings) == 0, "it belongs to no endpoint"
        assert not process_exists(pid)


async def test_a_change_that_is_refused_or_given_up_leaves_none(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = await home.create_branch()
    with pytest.raises(EngineError, match='role "nobody" does not exist') as refused:
        await change(compute, CreateDatabase(name="shop", owner="nobody"))
    assert not refused.value.transient
    assert not run_file(compute).exists()
    begun = asyncio.Event()

    async def wait_for_ever(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as endless:
        endless.setattr(changes, "apply_change", wait_for_ever)
        asking = asyncio.ensure_future(change(compute))
        await begun.wait()
        pid = compute.pid
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not process_exists(pid)
    assert not run_file(compute).exists()


async def test_it_writes_nothing_about_what_the_endpoint_was_told(home: EngineHome) -> None:
    """So the first start still renames the spare names of the template, and later starts execute no statement."""
    compute = await home.create_branch(
        roles=(RoleSpec(name="app", verifier=VERIFIER),), databases=(DatabaseSpec(name="shop", owner="app"),)
    )
    await change(compute)
    assert not (compute.volume_folder / "applied").exists()
    assert await compute.start() is Readiness.READY
    assert await roles(compute) == {"app", "writer"}
    assert await compute.fetch_value("select current_user", "app", "shop") == "app"
    applied = (compute.volume_folder / "applied").read_text()
    await compute.suspend()
    await change(compute, CreateRole(name="second"))
    assert (compute.volume_folder / "applied").read_text() == applied


async def test_a_branch_with_logical_slots_is_changed_in_its_sleep(home: EngineHome) -> None:
    compute = await home.create_compute(settings=build_compute_settings(0.25, logical_replication=True))
    await compute.fetch_value("select pg_create_logical_replication_slot('follower', 'pgoutput')")
    await compute.suspend()
    await change(compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select slot_name from pg_replication_slots") == "follower"
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_branch_whose_compute_was_killed_is_changed(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create table kept as select 1 as one")
    await compute.kill()
    await change(compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select one from kept") == 1
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_change_waits_for_a_compute_that_is_stopping(home: EngineHome) -> None:
    compute = await home.create_compute()
    begin_to_stop(compute)
    await change(compute)
    assert not (compute.data_folder / "postmaster.pid").exists()
    assert await compute.start() is Readiness.READY
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_compute_that_is_starting_is_waited_for(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    write_status(compute, "starting")
    with monkeypatch.context() as hasty:
        hasty.setattr(running, "SETTLE_TIMEOUT", 0.1)
        for verb in (change, home.create_child):
            with pytest.raises(EngineError, match="starting or stopping") as refused:
                await verb(compute)
            assert refused.value.transient
    waiting = asyncio.gather(change(compute), home.create_child(compute))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    write_status(compute, READY)
    _, child = await waiting
    assert compute.pid == pid
    assert await roles(compute) == {ROLE, "writer"}
    assert await child.start() is Readiness.READY


async def test_a_parent_that_is_stopping_is_cloned_when_it_sleeps(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create table kept as select 1 as one")
    begin_to_stop(compute)
    child = await home.create_child(compute)
    assert not (compute.data_folder / "postmaster.pid").exists()
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select one from kept") == 1


async def test_a_parent_is_cloned_while_it_is_changed(home: EngineHome) -> None:
    compute = await home.create_branch()
    await asyncio.gather(*(change(compute, CreateRole(name=f"role {n}")) for n in range(4)), home.create_child(compute))
    child = home.computes[-1]
    assert await child.start() is Readiness.READY
    assert await compute.start() is Readiness.READY
    assert await roles(compute) == {ROLE, *(f"role {n}" for n in range(4))}


async def test_a_branch_from_the_warm_pool_is_changed_before_its_endpoint_comes() -> None:
    with home_on_driver("plain", warm_pool=1) as settings:
        install_templates(settings.home)
        async with WarmHome.open(settings) as home:
            await home.wait_for_spares(1)
            compute = await home.create_project()
            assert (await home.engine.ensure_branch(make_branch_spec(compute.spec))).at is None
            pid = compute.pid
            await change(compute)
            assert compute.pid == pid, "through the compute that already runs"
            assert await compute.start() is Readiness.READY
            assert await roles(compute) == {ROLE, "writer"}


async def test_a_volume_of_an_earlier_version_tells_no_origin(home: EngineHome) -> None:
    compute = await home.create_compute()
    child = await home.create_child(compute)
    record = child.volume_folder / "volume.json"
    fields = json.loads(record.read_text())
    assert fields["lsn"]
    record.write_text(json.dumps({name: fields[name] for name in ("project_id", "install", "parent", "wal_apart")}))
    assert await home.engine.ensure_branch(make_branch_spec(child.spec)) == Origin()
    assert await child.start() is Readiness.READY


async def test_control_may_be_killed_at_any_moment_of_a_change(is_long_run: bool) -> None:
    dice, times = random.Random(20261116), 12 if is_long_run else 3
    with home_on_driver("plain", warm_pool=0, project_uids=reserve_uid_range()) as settings:
        install_templates(settings.home)
        machine, control = HomeConsistency(settings), ControlProcess(settings)
        names = CallArguments(project="own-project", volume="vol-changed", endpoint="ep-changed")
        await control.start()
        await control.call("ensure_branch", names)
        for number in range(times):
            changing = asyncio.ensure_future(control.call("change", replace(names, role=f"role {number}")))
            await asyncio.sleep(dice.uniform(0, 0.08))
            control.kill()
            await control.wait()
            await asyncio.gather(changing, return_exceptions=True)
            if changing.exception() is not None:
                assert isinstance(changing.exception(), ControlKilled)
            await control.start()
            await control.call("change", replace(names, role=f"role {number}"))
        await control.call("ensure_running", names)
        seen = await control.call("contents", names)
        await control.stop()
        assert machine.find_inconsistencies() == []
        assert seen == {"roles": [ROLE, *sorted(f"role {n}" for n in range(times))], "databases": [DATABASE]}


def write_status(compute: Compute, status: str) -> None:
    """Write the pid file that a compute has at an earlier stage."""
    path = compute.data_folder / "postmaster.pid"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:7], status, *lines[8:]]) + "\n")
