"""Faults on the whole platform: states stay true, errors are explained, other projects go on, and repair works."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bough.domain.operation import Operation, OperationStatus
from bough.engine.local.computes.pid_file import PidFile
from bough.engine.local.folders import Folders
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import Image
from bough.engine.local.progress import ignore_progress
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from journeys.platform_actions import run_tasks_and_operations
from support.platform import API, Platform, install_templates, open_platform_in, temporary_folder
from support.requirements import require_cow


class ProjectWithRows:
    """A project with a table of 1000 rows, and its state in the store, the engine and the data directory."""

    def __init__(self, platform: Platform, created: dict[str, Any]) -> None:
        self.platform = platform
        self.created = created
        self.id = ProjectId(created["project"]["id"])
        self.endpoint_id = EndpointId(created["endpoints"][0]["id"])
        self.branch_id = BranchId(created["branch"]["id"])

    @classmethod
    async def create(cls, platform: Platform) -> "ProjectWithRows":
        project = cls(platform, await platform.create_ready_project())
        await platform.query(project.created, "create table kept as select generate_series(1, 1000) as n")
        return project

    async def count_rows(self) -> int:
        return int(await self.platform.query(self.created, "select count(*) from kept"))

    async def get_state(self) -> tuple[str, str | None]:
        async with self.platform.store.read() as rows:
            endpoint = await rows.endpoints.get(self.endpoint_id)
        assert endpoint is not None
        return endpoint.state, endpoint.pending_state

    async def list_operations(self) -> list[Operation]:
        return await self.platform.list_operations(self.id)

    async def get_data_folder(self) -> Path:
        async with self.platform.store.read() as rows:
            branch = await rows.branches.get(self.id, self.branch_id)
        assert branch is not None
        return Folders(self.platform.settings).volumes / branch.volume_id / "data"

    async def get_postmaster_pid(self) -> int:
        file = PidFile.read(await self.get_data_folder())
        assert file is not None
        return file.pid

    async def kill_postmaster(self) -> None:
        os.kill(await self.get_postmaster_pid(), signal.SIGKILL)
        while self.endpoint_id in (await self.platform.engine.observe()).running_endpoints:
            pass

    async def start_compute(self) -> None:
        """Starts the compute with the operation that a wake creates."""
        operation = NewOperation(StartCompute, self.id, self.branch_id, self.endpoint_id)
        async with self.platform.services.queue.locked_transaction(operation.lock) as rows:
            await self.platform.services.queue.enqueue(rows, [operation], "wake")
        await self.platform.run_operations()


async def test_a_killed_compute_is_back_at_the_next_beat(platform: Platform) -> None:
    project, other = await ProjectWithRows.create(platform), await ProjectWithRows.create(platform)
    await project.kill_postmaster()
    with capture_logs() as log_lines:
        await run_tasks_and_operations(platform)
    assert await project.count_rows() == 1000
    assert await project.get_state() == ("active", None)
    assert len(await other.list_operations()) == 2, "the other project is not affected"
    results = [log_line["result"] for log_line in log_lines if log_line["event"] == "task_ran"]
    assert results == ["starting 1 missing computes, stopped 0 unwanted ones"]


async def test_a_killed_session_needs_nobody(platform: Platform) -> None:
    project = await ProjectWithRows.create(platform)
    pid = await project.get_postmaster_pid()
    with suppress(OSError):
        async with platform.connect(project.endpoint_id, "neondb_owner", "neondb") as connection:
            os.kill(await connection.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    await run_tasks_and_operations(platform)
    assert await project.get_state() == ("active", None)
    assert len(await project.list_operations()) == 2
    assert await project.get_postmaster_pid() == pid


async def test_broken_data_stops_one_project_with_a_sentence_and_no_other(platform: Platform) -> None:
    project, other = await ProjectWithRows.create(platform), await ProjectWithRows.create(platform)
    control_file = await project.get_data_folder() / "global" / "pg_control"
    original_bytes = control_file.read_bytes()
    await project.kill_postmaster()
    os.truncate(control_file, 100)
    with capture_logs() as log_lines:
        for _ in range(3):
            await run_tasks_and_operations(platform)

    last = (await project.list_operations())[-1]
    assert (last.kind, last.status, last.failures) == ("start_compute", OperationStatus.FAILED, 1)
    operation = (await platform.client.get(f"{API}/projects/{project.id}/operations/{last.id}")).json()["operation"]
    assert operation["status"] == "failed"
    assert "could not start: could not read file" in operation["error"]
    assert len(await project.list_operations()) == 3, "the start is not repeated in every round of tasks"
    assert await project.get_state() == ("idle", None)
    (log_line,) = [log_line for log_line in log_lines if log_line["event"] == "step_failed"]
    assert (log_line["log_level"], log_line["error"]) == ("error", operation["error"])
    assert await other.count_rows() == 1000

    control_file.write_bytes(original_bytes)
    await project.start_compute()
    assert await project.get_state() == ("active", None)
    assert await project.count_rows() == 1000


@pytest.fixture
async def platform_with_image() -> AsyncIterator[tuple[Platform, Image]]:
    with folder_with_image() as (folder, image):
        async with open_platform_in(folder) as platform:
            try:
                yield platform, image
            finally:
                image.ensure_mounted()


@contextmanager
def folder_with_image() -> Iterator[tuple[Path, Image]]:
    require_cow()
    with temporary_folder() as folder:
        home = folder / "home"
        install_templates(home)
        image = Image.plan(home, home / "storage.img", fs="xfs", thin=True, size=1 << 30)
        image_setup.create_image(image, 0, ignore_progress)
        (home / "templates").mkdir()  # prevents the installation of templates there
        try:
            yield folder, image
        finally:
            image.unmount()


async def test_a_lost_storage_is_told_and_changes_no_row(platform_with_image: tuple[Platform, Image]) -> None:
    platform, image = platform_with_image
    project = await ProjectWithRows.create(platform)
    await platform.engine.ensure_suspended(project.endpoint_id)  # without a change of the store
    image.unmount()
    with capture_logs() as log_lines:
        for _ in range(3):
            await run_tasks_and_operations(platform)
    assert await project.get_state() == ("active", None)
    assert len(await project.list_operations()) == 2
    failed = {log_line["task"]: log_line for log_line in log_lines if log_line["event"] == "task_failed"}
    assert "is not mounted" in failed["ReconcileComputes"]["error"]
    refusal = await platform.client.post(f"{API}/projects", json={"project": {}})
    assert refusal.status_code == 503
    assert "is not mounted" in refusal.json()["message"]
    assert (await platform.client.get(f"{API}/projects/{project.id}")).status_code == 200

    image.ensure_mounted()
    await run_tasks_and_operations(platform)
    assert await project.count_rows() == 1000
