"""Computes that serve nobody but us: what is changed by them, what nobody sees of them, and what a crash leaves."""

import asyncio
import json
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from bough.cli.admin import leftovers
from bough.domain.change import MakeDatabase, MakeRole, Unsubscribe
from bough.engine.local.computes import changes, living
from bough.engine.local.computes import private as private_computes
from bough.engine.local.computes.postmaster import READY
from bough.engine.local.computes.runs import private_name
from bough.engine.port import EngineError, Origin, Readiness
from bough.engine.spec import DatabaseSpec, RoleSpec, compute_settings
from engine.consistency import Machine
from engine.control import Control, Killed
from engine.control_child import Given
from engine.homes import DATABASE, ROLE, VERIFIER, Compute, Home, branch_of, home_on, is_process
from engine.test_computes import begin_to_stop
from engine.test_killed_control import another_control
from engine.walking import own_uids
from engine.warm_homes import WarmHome
from world import furnish

WRITER = MakeRole(name="writer", verifier=VERIFIER)


async def change(compute: Compute, wished: MakeRole | MakeDatabase | Unsubscribe = WRITER) -> None:
    await compute.home.engine.change(branch_of(compute.spec), wished)


async def roles(compute: Compute) -> set[str]:
    told = await compute.home.engine.contents(compute.spec.endpoint_id)
    assert told is not None
    return {role.name for role in told.roles}


def private(compute: Compute) -> AbstractAsyncContextManager[Path]:
    engine = compute.home.engine
    return engine._private.on(branch_of(compute.spec), engine._offer._installs[compute.spec.install])


def noted(compute: Compute) -> Path:
    return compute.home.settings.home / "run" / f"{private_name(compute.spec.volume_id)}.json"


async def left_by_a_crash(compute: Compute) -> int:
    """The pid of one whose maker does not come to stop it."""
    engine = compute.home.engine
    spec = private_computes._spec(branch_of(compute.spec), {})
    await engine._private._started(spec, engine._offer._installs[compute.spec.install])
    return compute.pid


async def test_nobody_sees_it_and_nothing_is_left_of_it(home: Home) -> None:
    compute = await home.branch()
    before = await home.engine.observe()
    async with private(compute):
        seen = await home.engine.observe()
        assert (seen.running, seen.spare, seen.volumes) == (before.running, before.spare, before.volumes)
        assert await compute.address() is None
        assert noted(compute).exists()
    assert not (compute.data / "postmaster.pid").exists()
    name = private_name(compute.spec.volume_id)
    assert not [path for path in home.settings.home.rglob(f"*{name}*") if "proc" not in path.parts]
    assert not (home.settings.sockets / name).exists()


async def test_one_that_a_killed_control_left_is_stopped_by_the_next(home: Home) -> None:
    compute = await home.branch()
    pid = await left_by_a_crash(compute)
    await another_control(home)
    assert not is_process(pid)
    assert not noted(compute).exists()
    assert await compute.run() is Readiness.READY
    assert await roles(compute) == {ROLE}


async def test_one_whose_pid_was_never_noted_is_stopped_too(home: Home) -> None:
    compute = await home.branch()
    pid = await left_by_a_crash(compute)
    noted(compute).write_text(json.dumps({**json.loads(noted(compute).read_text()), "pid": None}))
    (compute.data / "postmaster.pid").unlink()
    await another_control(home)
    assert not is_process(pid)


async def test_one_that_was_left_is_in_nobodys_way(home: Home) -> None:
    compute = await home.branch()
    pid = await left_by_a_crash(compute)
    await change(compute)
    assert not is_process(pid)
    pid = await left_by_a_crash(compute)
    child = await home.child(compute)
    assert not is_process(pid)
    pid = await left_by_a_crash(compute)
    assert await compute.run() is Readiness.READY
    assert not is_process(pid)
    assert await roles(compute) == {ROLE, "writer"}
    pid = await left_by_a_crash(child)
    await child.absent()
    assert not is_process(pid)
    assert not noted(child).exists()


async def test_one_that_lost_its_run_is_in_nobodys_way(home: Home) -> None:
    compute = await home.branch()
    pid = await left_by_a_crash(compute)
    noted(compute).unlink()
    assert await compute.run() is Readiness.READY
    assert not is_process(pid)
    await compute.suspend()
    await left_by_a_crash(compute)
    noted(compute).unlink()
    await compute.absent()
    assert not compute.volume.exists()
    assert not (home.settings.sockets / private_name(compute.spec.volume_id)).exists()


def test_down_stops_it_when_nobody_else_does() -> None:
    with home_on("plain") as settings:

        async def leave_one() -> int:
            async with Home.opened(settings) as home:
                compute = await home.branch()
                pid = await left_by_a_crash(compute)
                home.computes.clear()
                return pid

        pid = asyncio.run(leave_one())
        assert is_process(pid)
        assert leftovers.stop(settings) == 0, "no endpoint's"
        assert not is_process(pid)


async def test_a_change_that_is_refused_or_given_up_leaves_none(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.branch()
    with pytest.raises(EngineError, match='role "nobody" does not exist') as refused:
        await change(compute, MakeDatabase(name="shop", owner="nobody"))
    assert not refused.value.transient
    assert not noted(compute).exists()
    begun = asyncio.Event()

    async def wait_for_ever(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as endless:
        endless.setattr(changes, "make", wait_for_ever)
        asking = asyncio.ensure_future(change(compute))
        await begun.wait()
        pid = compute.pid
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not is_process(pid)
    assert not noted(compute).exists()


async def test_it_writes_nothing_about_what_the_endpoint_was_told(home: Home) -> None:
    """So the first start still takes over the template's names, and later ones look at nothing."""
    compute = await home.branch(
        roles=(RoleSpec(name="app", verifier=VERIFIER),), databases=(DatabaseSpec(name="shop", owner="app"),)
    )
    await change(compute)
    assert not (compute.volume / "applied").exists()
    assert await compute.run() is Readiness.READY
    assert await roles(compute) == {"app", "writer"}
    assert await compute.value("select current_user", "app", "shop") == "app"
    applied = (compute.volume / "applied").read_text()
    await compute.suspend()
    await change(compute, MakeRole(name="second"))
    assert (compute.volume / "applied").read_text() == applied


async def test_a_branch_with_logical_slots_is_changed_in_its_sleep(home: Home) -> None:
    compute = await home.compute(settings=compute_settings(0.25, logical_replication=True))
    await compute.value("select pg_create_logical_replication_slot('follower', 'pgoutput')")
    await compute.suspend()
    await change(compute)
    assert await compute.run() is Readiness.READY
    assert await compute.value("select slot_name from pg_replication_slots") == "follower"
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_branch_whose_compute_was_killed_is_changed(home: Home) -> None:
    compute = await home.compute()
    await compute.value("create table kept as select 1 as one")
    await compute.kill()
    await change(compute)
    assert await compute.run() is Readiness.READY
    assert await compute.value("select one from kept") == 1
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_change_waits_for_a_compute_that_is_stopping(home: Home) -> None:
    compute = await home.compute()
    begin_to_stop(compute)
    await change(compute)
    assert not (compute.data / "postmaster.pid").exists()
    assert await compute.run() is Readiness.READY
    assert await roles(compute) == {ROLE, "writer"}


async def test_a_compute_that_is_starting_is_waited_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.compute()
    pid = compute.pid
    say(compute, "starting")
    with monkeypatch.context() as hasty:
        hasty.setattr(living, "SETTLING_SECONDS", 0.1)
        for verb in (change, home.child):
            with pytest.raises(EngineError, match="starting or stopping") as refused:
                await verb(compute)
            assert refused.value.transient
    waiting = asyncio.gather(change(compute), home.child(compute))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    say(compute, READY)
    _, child = await waiting
    assert compute.pid == pid
    assert await roles(compute) == {ROLE, "writer"}
    assert await child.run() is Readiness.READY


async def test_a_parent_that_is_stopping_is_cloned_when_it_sleeps(home: Home) -> None:
    compute = await home.compute()
    await compute.value("create table kept as select 1 as one")
    begin_to_stop(compute)
    child = await home.child(compute)
    assert not (compute.data / "postmaster.pid").exists()
    assert await child.run() is Readiness.READY
    assert await child.value("select one from kept") == 1


async def test_a_parent_is_cloned_while_it_is_changed(home: Home) -> None:
    compute = await home.branch()
    await asyncio.gather(*(change(compute, MakeRole(name=f"role {n}")) for n in range(4)), home.child(compute))
    child = home.computes[-1]
    assert await child.run() is Readiness.READY
    assert await compute.run() is Readiness.READY
    assert await roles(compute) == {ROLE, *(f"role {n}" for n in range(4))}


async def test_a_branch_from_the_warm_pool_is_changed_before_its_endpoint_comes() -> None:
    with home_on("plain", warm_pool=1) as settings:
        furnish(settings.home)
        async with WarmHome.opened(settings) as home:
            await home.spares(1)
            compute = await home.project()
            assert (await home.engine.ensure_branch(branch_of(compute.spec))).at is None
            pid = compute.pid
            await change(compute)
            assert compute.pid == pid, "by the compute that is there"
            assert await compute.run() is Readiness.READY
            assert await roles(compute) == {ROLE, "writer"}


async def test_a_volume_of_an_earlier_version_tells_no_origin(home: Home) -> None:
    compute = await home.compute()
    child = await home.child(compute)
    record = child.volume / "volume.json"
    fields = json.loads(record.read_text())
    assert fields["lsn"]
    record.write_text(json.dumps({name: fields[name] for name in ("project_id", "install", "parent", "wal_apart")}))
    assert await home.engine.ensure_branch(branch_of(child.spec)) == Origin()
    assert await child.run() is Readiness.READY


async def test_control_may_be_killed_at_any_moment_of_a_change(long: bool) -> None:
    dice, times = random.Random(20261116), 12 if long else 3
    with home_on("plain", warm_pool=0, project_uids=own_uids()) as settings:
        furnish(settings.home)
        machine, control = Machine(settings), Control(settings)
        names = Given(project="own-project", volume="vol-changed", endpoint="ep-changed")
        await control.start()
        await control.call("ensure_branch", names)
        for number in range(times):
            changing = asyncio.ensure_future(control.call("change", replace(names, role=f"role {number}")))
            await asyncio.sleep(dice.uniform(0, 0.08))
            control.kill()
            await control.gone()
            await asyncio.gather(changing, return_exceptions=True)
            if changing.exception() is not None:
                assert isinstance(changing.exception(), Killed)
            await control.start()
            await control.call("change", replace(names, role=f"role {number}"))
        await control.call("ensure_running", names)
        seen = await control.call("contents", names)
        await control.end()
        assert machine.disorder() == []
        assert seen == {"roles": [ROLE, *sorted(f"role {n}" for n in range(times))], "databases": [DATABASE]}


def say(compute: Compute, status: str) -> None:
    """As a compute that has not come so far would have written."""
    path = compute.data / "postmaster.pid"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:7], status, *lines[8:]]) + "\n")
