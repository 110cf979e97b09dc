"""The logs of a running platform: rotated under a running Postgres, deleted with their endpoint."""

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
MAX_BYTES = 64 * 1024


def log_path(platform: Platform, created: dict[str, Any]) -> Path:
    return platform.settings.compute_logs / f"{created['endpoints'][0]['id']}.log"


def make_old(path: Path) -> None:
    timestamp = clock.now().timestamp() - TWO_DAYS
    os.utime(path, (timestamp, timestamp))


async def write_log_lines(platform: Platform, created: dict[str, Any], word: str, times: int = 1) -> None:
    """Make Postgres write lines into its log."""
    parameters = created["connection_uris"][0]["connection_parameters"]
    async with platform.connect(created["endpoints"][0]["id"], parameters["role"], parameters["database"]) as db:
        await db.execute(f"do $$ begin for n in 1..{times} loop raise log '{word} %', n; end loop; end $$")


async def test_a_compute_goes_on_writing_to_a_log_that_was_cut() -> None:
    async with open_platform(log_file_bytes=MAX_BYTES, log_files_kept=2) as platform:
        created = await platform.create_ready_project()
        log = log_path(platform, created)
        await write_log_lines(platform, created, "before", times=2000)
        assert await RotateLogs(platform.settings).run() == "rotated 1 logs"
        await write_log_lines(platform, created, "after")
        assert "after 1" in log.read_text()
        assert "before 2000" in log_rotation.newest_rotated_path(log).read_text()
        assert await RotateLogs(platform.settings).run() == ""

        await platform.engine.ensure_suspended(EndpointId(created["endpoints"][0]["id"]))
        assert "database system is shut down" in log.read_text()


async def test_control_goes_on_writing_to_its_own() -> None:
    async with open_platform(log_file_bytes=MAX_BYTES) as platform:
        with platform.settings.log_file.open("a", buffering=1) as control:
            control.write("x" * MAX_BYTES + "\nlast\n")
            await RotateLogs(platform.settings).run()
            control.write("first\n")
        assert platform.settings.log_file.read_text() == "first\n"


async def test_the_longest_are_cut_first_and_one_that_cannot_be_is_no_obstacle() -> None:
    async with open_platform(log_file_bytes=MAX_BYTES) as platform:
        folder = platform.settings.compute_logs
        for number in range(BATCH_SIZE + 2):
            (folder / f"ep-{number}.log").write_bytes(b"x" * (MAX_BYTES + 1 + number))
        (folder / "ep-9.log.1").mkdir()  # blocks a rotated file
        assert await RotateLogs(platform.settings).run() == f"rotated {BATCH_SIZE - 1} logs"
        left = {path.name for path in folder.glob("*.log") if path.stat().st_size}
        assert left == {"ep-0.log", "ep-1.log", "ep-9.log"}


async def test_logs_of_what_is_gone_for_good_are_removed_after_a_day() -> None:
    async with open_platform(recoverable_seconds=0) as platform:
        deleted, runs, sleeps, recent = [await platform.create_ready_project(name=name) for name in "grsy"]
        forget = DeleteEndpointLogs(platform.settings, platform.store, platform.engine)
        await platform.engine.ensure_suspended(EndpointId(sleeps["endpoints"][0]["id"]))
        for created in (deleted, recent):
            response = await platform.client.delete(f"{API}/projects/{created['project']['id']}")
            assert response.status_code == 200
        await platform.run_operations()
        await PurgeDeleted(platform.store, platform.inner.services.queue).run()
        await platform.run_operations()

        assert await forget.run() == ""
        log_rotation.newest_rotated_path(log_path(platform, deleted)).write_text("an older file")
        for created in (deleted, sleeps):
            endpoint = log_path(platform, created).stem
            (platform.settings.compute_audit / endpoint).mkdir()
            for suffix in (".audit", ".audit.1", ".audit.2.gz"):
                (platform.settings.compute_logs / f"{endpoint}{suffix}").write_text("audited statements")
        for created in (deleted, runs, sleeps):
            make_old(log_path(platform, created))
        assert await forget.run() == "removed the logs of 1 deleted endpoints"
        left = {path.name for path in platform.settings.compute_logs.iterdir()}
        sleeping = log_path(platform, sleeps).stem
        audited = {f"{sleeping}{suffix}" for suffix in (".audit", ".audit.1", ".audit.2.gz")}
        assert left == audited | {log_path(platform, created).name for created in (runs, sleeps, recent)}
        assert [path.name for path in platform.settings.compute_audit.iterdir()] == [sleeping]


async def test_a_compute_that_waits_for_a_project_keeps_its_log() -> None:
    async with open_platform(warm_pool=1) as platform:
        while not (spare := (await platform.engine.observe()).spare_endpoints):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        log = platform.settings.compute_logs / f"{next(iter(spare))}.log"
        make_old(log)
        await DeleteEndpointLogs(platform.settings, platform.store, platform.engine).run()
        assert START_MARKER in log.read_text()


async def test_no_log_holds_a_secret() -> None:
    async with open_platform() as platform:
        created = await platform.create_ready_project()
        async with platform.store.read() as rows:
            roles = await rows.roles.list_in_branch(created["branch"]["id"])
        secrets = [platform.key, created["roles"][0]["password"], *(role.verifier for role in roles)]
        text = "".join(path.read_text() for path in platform.settings.logs.rglob("*.log"))
    assert START_MARKER in text
    assert [secret for secret in secrets if secret in text] == []
