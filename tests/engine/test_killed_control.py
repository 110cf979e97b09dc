"""Control is killed between two steps: the next control process continues or cleans up."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from bough.engine.local.engine import LocalEngine
from bough.engine.local.threads import submit_work
from bough.engine.port import EngineError, Readiness
from bough.ids import ProjectId
from support.engine_home import EngineHome, process_exists
from support.home_consistency import HomeConsistency
from support.requirements import require_root


async def another_control(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


async def test_before_it_noted_the_pid_of_a_compute_that_has_not_written_its_own(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    run_file = home.settings.home / "run" / f"{compute.spec.endpoint_id}.json"
    run_file.write_text(json.dumps({**json.loads(run_file.read_text()), "pid": None}))
    (compute.data_folder / "postmaster.pid").unlink()
    await another_control(home)
    assert compute.spec.endpoint_id in (await home.engine.observe()).running_endpoints
    await compute.suspend()
    assert not process_exists(pid)
    assert await compute.start() is Readiness.READY


async def test_while_it_wrote_a_small_file(home: EngineHome) -> None:
    compute = await home.create_compute()
    half = home.settings.home / "run" / ".ep-half.json.new"
    half.write_text("{")
    await another_control(home)
    assert not half.exists()
    assert compute.spec.endpoint_id in (await home.engine.observe()).running_endpoints


async def test_after_it_lent_a_user_id_to_a_project_that_never_came(home: EngineHome) -> None:
    require_root()
    machine = HomeConsistency(home.settings)
    compute = await home.create_branch()
    uids, host = home.settings.home / "uids", home.settings.sockets.parent / "uids"
    ghost = ProjectId.new()
    allocated = home.engine._components.sandbox.ensure_identity(ghost).uid
    (uids / f".{allocated + 1}.new").symlink_to(ghost)
    claim = host / str(home.settings.project_uids[1])
    claim.symlink_to(uids / claim.name)
    assert machine.find_inconsistencies() != []

    await another_control(home)
    assert "\n".join(machine.find_inconsistencies()) == ""
    owners = {str(link.readlink()) for link in uids.iterdir()}
    assert compute.spec.project_id in owners
    assert ghost not in owners
    assert not os.path.lexists(claim)


def test_work_that_found_no_thread_is_not_done_by_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor would keep the work in its queue for the next thread, although the caller got an error."""
    done: list[str] = []

    def refuse(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadPoolExecutor(1) as executor:
        with monkeypatch.context() as poor:
            poor.setattr(Thread, "start", refuse)
            with pytest.raises(EngineError, match="cannot start more threads") as refused:
                submit_work(lambda: done.append("refused"), executor.submit)
        assert refused.value.transient
        submit_work(lambda: done.append("asked for"), executor.submit).result()
    assert done == ["asked for"]


def test_what_such_work_raises_is_told_to_whoever_asked() -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(FileNotFoundError):
        submit_work(lambda: Path("/nonexistent").read_text(), executor.submit).result()
