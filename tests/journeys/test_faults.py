"""Faults as a user of the whole platform sees them: true states, a sentence, the rest goes on, and recovery."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bough.domain.operation import Operation, OperationStatus
from bough.engine.local.computes.postmaster import PidFile
from bough.engine.local.folders import Folders
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import Image
from bough.engine.local.progress import ignore_progress
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from support.platform import API, Platform, install_templates, open_platform_in, temporary_folder
from support.requirements import require_cow


async def beat(platform: Platform) -> None:
    """One round of the standing tasks, then the work they asked for."""
    await platform.run_tasks()
    await platform.run_operations()


class Project:
    """A project with a table of a thousand rows, and what is known of it in every room."""

    def __init__(self, platform: Platform, made: dict[str, Any]) -> None:
        self.platform = platform
        self.made = made
        self.id = ProjectId(made["project"]["id"])
        self.endpoint_id = EndpointId(made["endpoints"][0]["id"])
        self.branch_id = BranchId(made["branch"]["id"])

    @classmethod
    async def new(cls, platform: Platform) -> "Project":
        project = cls(platform, await platform.create_ready_project())
        await platform.query(project.made, "create table kept as select generate_series(1, 1000) as n")
        return project

    async def rows(self) -> int:
        return int(await self.platform.query(self.made, "select count(*) from kept"))

    async def state(self) -> tuple[str, str | None]:
        async with self.platform.store.read() as rows:
            endpoint = await rows.endpoints.get(self.endpoint_id)
        assert endpoint is not None
        return endpoint.state, endpoint.pending_state

    async def operations(self) -> list[Operation]:
        return await self.platform.list_operations(self.id)

    async def data(self) -> Path:
        async with self.platform.store.read() as rows:
            branch = await rows.branches.get(self.id, self.branch_id)
        assert branch is not None
        return Folders(self.platform.settings).volumes / branch.volume_id / "data"

    async def postmaster(self) -> int:
        file = PidFile.read(await self.data())
        assert file is not None
        return file.pid

    async def kill(self) -> None:
        os.kill(await self.postmaster(), signal.SIGKILL)
        while self.endpoint_id in (await self.platform.engine.observe()).running_endpoints:
            pass

    async def start(self) -> None:
        """As a wake does."""
        wish = NewOperation(StartCompute, self.id, self.branch_id, self.endpoint_id)
        async with self.platform.services.queue.locked_transaction(wish.lock) as rows:
            await self.platform.services.queue.enqueue(rows, [wish], "wake")
        await self.platform.run_operations()


async def test_a_killed_compute_is_back_at_the_next_beat(platform: Platform) -> None:
    project, other = await Project.new(platform), await Project.new(platform)
    await project.kill()
    with capture_logs() as lines:
        await beat(platform)
    assert await project.rows() == 1000
    assert await project.state() == ("active", None)
    assert len(await other.operations()) == 2, "nothing was done to the other"
    sentences = [line["sentence"] for line in lines if line["event"] == "task_ran"]
    assert sentences == ["starting 1 computes that were gone, stopped 0 that nobody wants"]


async def test_a_killed_session_needs_nobody(platform: Platform) -> None:
    project = await Project.new(platform)
    pid = await project.postmaster()
    with suppress(OSError):
        async with platform.connect(project.endpoint_id, "neondb_owner", "neondb") as db:
            os.kill(await db.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    await beat(platform)
    assert await project.state() == ("active", None)
    assert len(await project.operations()) == 2
    assert await project.postmaster() == pid


async def test_broken_data_stops_one_project_with_a_sentence_and_no_other(platform: Platform) -> None:
    project, other = await Project.new(platform), await Project.new(platform)
    control_file = await project.data() / "global" / "pg_control"
    whole = control_file.read_bytes()
    await project.kill()
    os.truncate(control_file, 100)
    with capture_logs() as lines:
        for _ in range(3):
            await beat(platform)

    last = (await project.operations())[-1]
    assert (last.kind, last.status, last.failures) == ("start_compute", OperationStatus.FAILED, 1)
    shown = (await platform.client.get(f"{API}/projects/{project.id}/operations/{last.id}")).json()["operation"]
    assert shown["status"] == "failed"
    assert "could not start: could not read file" in shown["error"]
    assert len(await project.operations()) == 3, "it is tried once, and not at every beat"
    assert await project.state() == ("idle", None)
    (line,) = [line for line in lines if line["event"] == "step_failed"]
    assert (line["log_level"], line["error"]) == ("error", shown["error"])
    assert await other.rows() == 1000

    control_file.write_bytes(whole)
    await project.start()
    assert await project.state() == ("active", None)
    assert await project.rows() == 1000


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
        (home / "templates").mkdir()  # so that no others are put there
        try:
            yield folder, image
        finally:
            image.unmount()


async def test_a_lost_storage_is_told_and_changes_no_row(platform_with_image: tuple[Platform, Image]) -> None:
    platform, image = platform_with_image
    project = await Project.new(platform)
    await platform.engine.ensure_suspended(project.endpoint_id)  # behind the rows' back
    image.unmount()
    with capture_logs() as lines:
        for _ in range(3):
            await beat(platform)
    assert await project.state() == ("active", None)
    assert len(await project.operations()) == 2
    failed = {line["task"]: line for line in lines if line["event"] == "task_failed"}
    assert "is not mounted" in failed["ReconcileComputes"]["error"]
    refused = await platform.client.post(f"{API}/projects", json={"project": {}})
    assert refused.status_code == 503
    assert "is not mounted" in refused.json()["message"]
    assert (await platform.client.get(f"{API}/projects/{project.id}")).status_code == 200

    image.ensure_mounted()
    await beat(platform)
    assert await project.rows() == 1000
