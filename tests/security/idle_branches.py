"""A project with many branches and idle computes: rows, volumes, run files and processes.

A compute consists of what periodic tasks inspect before they open a session: a run record, a pid file and a process
with the data directory as its working directory. It accepts no connections.
"""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bough import clock
from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import EndpointState
from bough.domain.project import Project
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.ids import EndpointId, VolumeId
from support.platform import Platform
from support.stores import add_branch, add_project, make_branch, make_endpoint, make_project

NEVER_SUSPEND = -1  # value of suspend_timeout_seconds
SEGMENT = "000000010000000000000001"


@dataclass
class IdleBranches:
    platform: Platform
    project: Project
    root: Branch
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    volumes: list[VolumeId] = field(default_factory=list)

    async def create_up_to(self, count: int) -> None:
        """Adds branches with running computes until there are `count` of them."""
        while len(self.volumes) < count:
            name = f"branch {len(self.volumes)}"
            branch = make_branch(
                self.project, name=name, is_default=False, parent_id=self.root.id, state=BranchState.READY
            )
            await self._add_running_endpoint(await add_branch(self.platform.store, branch))
            self.volumes.append(branch.volume_id)

    async def _add_running_endpoint(self, branch: Branch) -> None:
        now = clock.now()
        endpoint = make_endpoint(
            branch,
            state=EndpointState.ACTIVE,
            pending_state=None,
            suspend_timeout_seconds=NEVER_SUSPEND,
            last_active=now,
        )
        async with self.platform.store.transaction() as rows:
            await rows.endpoints.add(endpoint)
            await rows.usage.start_metering(endpoint.id, now)
        self._start_process(
            create_volume(self.platform, self.project, branch.volume_id, self.root.volume_id), endpoint.id
        )

    def _start_process(self, folder: VolumeFolder, endpoint: EndpointId) -> None:
        process = subprocess.Popen(["/bin/sleep", "3600"], cwd=folder.data)
        self.processes.append(process)
        lines = [str(process.pid), str(folder.data), "0", "5432", "/nowhere", "", "", "ready"]
        (folder.data / "postmaster.pid").write_text("\n".join(lines))
        run = ComputeRun(
            endpoint_id=endpoint,
            project_id=self.project.id,
            volume_id=VolumeId(folder.path.name),
            install=self.project.install,
            settings_digest="",
            pid=process.pid,
        )
        ComputeRuns(Folders(self.platform.settings).runs).put(run)

    def kill_processes(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def create_volume(platform: Platform, project: Project, volume: VolumeId, parent: VolumeId | None) -> VolumeFolder:
    """Creates a volume with an empty data directory."""
    path = Folders(platform.settings).volumes / volume
    folder = VolumeFolder(path, path)
    folder.create(
        VolumeRecord(
            project_id=project.id, template=f"{project.install}.0", source_volume_id=parent, first_segment=SEGMENT
        )
    )
    folder.data.mkdir(mode=0o700)
    return folder


@asynccontextmanager
async def open_idle_branches(platform: Platform) -> AsyncIterator[IdleBranches]:
    install = next(iter(platform.engine.capabilities().installs.values()))
    project = make_project(install=install)
    root, endpoint = await add_project(platform.store, project, state=BranchState.READY)
    async with platform.store.transaction() as rows:
        await rows.endpoints.save(make_endpoint(root, id=endpoint.id, state=EndpointState.IDLE, pending_state=None))
    create_volume(platform, project, root.volume_id, None)
    idle_branches = IdleBranches(platform, project, root)
    try:
        yield idle_branches
    finally:
        idle_branches.kill_processes()
