"""The logs of a living platform: cut under a running Postgres, removed with what wrote them."""

import asyncio
import os
from pathlib import Path
from typing import Any

from bough import clock, log_rotation
from bough.engine.local.computes.compute_log import START_MARKER
from bough.ids import EndpointId
from bough.tasks.cleanup import DeleteEndpointLogs
from bough.tasks.purge_deleted import PurgeDeleted
from bough.tasks.rotate_logs import BATCH_SIZE, RotateLogs
from support.platform import API, Platform, open_platform

TWO_DAYS = 2 * 86_400
LONGEST = 64 * 1024


def log_of(running: Platform, made: dict[str, Any]) -> Path:
    return running.settings.compute_logs / f"{made['endpoints'][0]['id']}.log"


def make_old(path: Path) -> None:
    moment = clock.now().timestamp() - TWO_DAYS
    os.utime(path, (moment, moment))


async def writes(running: Platform, made: dict[str, Any], word: str, times: int = 1) -> None:
    """Lines that a tenant makes Postgres write into its log."""
    parameters = made["connection_uris"][0]["connection_parameters"]
    async with running.connect(made["endpoints"][0]["id"], parameters["role"], parameters["database"]) as db:
        await db.execute(f"do $$ begin for n in 1..{times} loop raise log '{word} %', n; end loop; end $$")


async def test_a_compute_goes_on_writing_to_a_log_that_was_cut() -> None:
    async with open_platform(log_file_bytes=LONGEST, log_files_kept=2) as running:
        made = await running.create_ready_project()
        log = log_of(running, made)
        await writes(running, made, "before", times=2000)
        assert await RotateLogs(running.settings).run() == "cut 1 long logs"
        await writes(running, made, "after")
        assert "after 1" in log.read_text()
        assert "before 2000" in log_rotation.newest_rotated_path(log).read_text()
        assert await RotateLogs(running.settings).run() == ""

        await running.engine.ensure_suspended(EndpointId(made["endpoints"][0]["id"]))
        assert "database system is shut down" in log.read_text()


async def test_control_goes_on_writing_to_its_own() -> None:
    async with open_platform(log_file_bytes=LONGEST) as running:
        with running.settings.log_file.open("a", buffering=1) as control:
            control.write("x" * LONGEST + "\nlast\n")
            await RotateLogs(running.settings).run()
            control.write("first\n")
        assert running.settings.log_file.read_text() == "first\n"


async def test_the_longest_are_cut_first_and_one_that_cannot_be_is_no_obstacle() -> None:
    async with open_platform(log_file_bytes=LONGEST) as running:
        folder = running.settings.compute_logs
        for number in range(BATCH_SIZE + 2):
            (folder / f"ep-{number}.log").write_bytes(b"x" * (LONGEST + 1 + number))
        (folder / "ep-9.log.1").mkdir()  # in the way of a piece
        assert await RotateLogs(running.settings).run() == f"cut {BATCH_SIZE - 1} long logs"
        left = {path.name for path in folder.glob("*.log") if path.stat().st_size}
        assert left == {"ep-0.log", "ep-1.log", "ep-9.log"}


async def test_logs_of_what_is_gone_for_good_are_removed_after_a_day() -> None:
    async with open_platform(recoverable_seconds=0) as running:
        gone, runs, sleeps, young = [await running.create_ready_project(name=name) for name in "grsy"]
        forget = DeleteEndpointLogs(running.settings, running.store, running.engine)
        await running.engine.ensure_suspended(EndpointId(sleeps["endpoints"][0]["id"]))
        for made in (gone, young):
            answer = await running.client.delete(f"{API}/projects/{made['project']['id']}")
            assert answer.status_code == 200
        await running.run_operations()
        await PurgeDeleted(running.store, running.inner.services.queue).run()
        await running.run_operations()

        assert await forget.run() == ""
        log_rotation.newest_rotated_path(log_of(running, gone)).write_text("an older piece")
        for made in (gone, runs, sleeps):
            make_old(log_of(running, made))
        assert await forget.run() == "removed the logs of 1 endpoints that are gone"
        left = {path.name for path in running.settings.compute_logs.iterdir()}
        assert left == {log_of(running, made).name for made in (runs, sleeps, young)}


async def test_a_compute_that_waits_for_a_project_keeps_its_log() -> None:
    async with open_platform(warm_pool=1) as running:
        while not (spare := (await running.engine.observe()).spare_endpoints):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        log = running.settings.compute_logs / f"{next(iter(spare))}.log"
        make_old(log)
        await DeleteEndpointLogs(running.settings, running.store, running.engine).run()
        assert START_MARKER in log.read_text()


async def test_no_log_holds_a_secret() -> None:
    async with open_platform() as running:
        made = await running.create_ready_project()
        async with running.store.read() as rows:
            roles = await rows.roles.list_in_branch(made["branch"]["id"])
        secrets = [running.key, made["roles"][0]["password"], *(role.verifier for role in roles)]
        text = "".join(path.read_text() for path in running.settings.logs.rglob("*.log"))
    assert START_MARKER in text
    assert [secret for secret in secrets if secret in text] == []
