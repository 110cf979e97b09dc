"""Launch the server of a compute: prepare its volume, write its settings, start the process and limit its resources."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from bough.engine.local.computes import compute_sizes, postmaster, process
from bough.engine.local.computes.launch_options import LaunchOptions, build_launch_options, read_checked_record
from bough.engine.local.computes.metrics import StartKind
from bough.engine.local.computes.pid_file import STOPPING, PidFile
from bough.engine.local.computes.postmaster_process import Postmaster
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns, is_temporary
from bough.engine.local.computes.spare_assignment import SpareAssignment, is_spare
from bough.engine.local.computes.target import ComputeTarget
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from bough.postgres import postgresql_conf, preload_libraries


class ComputeLauncher:
    def __init__(
        self,
        running: RunningComputes,
        folders: Folders,
        volumes: Volumes,
        socket_users: SocketUsers,
        cgroups: Cgroups,
        *,
        runs: ComputeRuns,
        spare_assignment: SpareAssignment,
    ) -> None:
        self._running = running
        self._folders = folders
        self._volumes = volumes
        self._socket_users = socket_users
        self._cgroups = cgroups
        self._runs = runs
        self._spare_assignment = spare_assignment

    def prepare(self, spec: ComputeSpec, install: Install) -> tuple[LaunchOptions, StartKind | None]:
        """Return the launch options and the kind of start, which is None if it already runs or is temporary."""
        folder = self._volumes.folder(spec.volume_id)
        record = read_checked_record(folder, install)
        if record.is_pending and not is_temporary(spec.endpoint_id):
            raise EngineError("The branch's volume is still being recovered.")
        if not is_spare(spec.volume_id) and spec.primary is None:
            self._volumes.ensure_wal_archive(spec.volume_id, folder.owner)
        launch = build_launch_options(spec, install, self._folders, folder, record)
        if is_temporary(spec.endpoint_id):
            return launch, None
        if record.spare_name is not None and self._spare_assignment.assign_compute(record.spare_name, spec):
            return launch, "warm"
        if postmaster.is_alive(folder.data):
            return launch, None
        return launch, "wake" if folder.read_applied_digest() else "new"

    async def find_live(self, spec: ComputeSpec, launch: LaunchOptions) -> Postmaster | None:
        """Return the server that already runs on the volume. Wait for one that is stopping."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        server = await asyncio.to_thread(postmaster.find, launch.data, run.pid if run else None)
        file = PidFile.read(launch.data)
        if server is None or file is None:
            return server
        if file.status == STOPPING:
            with server:
                await process.stop(server)
            return None
        if not file.socket_folder or _is_same_folder(file.socket_folder, launch.sockets):
            return server
        server.close()
        name = Path(file.socket_folder).name
        if not (is_spare(name) or is_temporary(name)):
            raise EngineError("Another endpoint's compute still runs on the branch: suspend it first.")
        # A crash lost the run of a spare, so its sockets cannot be assigned to the endpoint.
        await self._running.stop_unassigned(spec.volume_id)
        return None

    async def start(self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget) -> Postmaster:
        pid = await run_shielded(lambda: self._start_process(spec, launch, target))
        server = Postmaster.open(pid)
        if server is None:
            raise EngineError("The compute exited immediately after its start.")
        return server

    def limit_start(self, spec: ComputeSpec, launch: LaunchOptions, pid: int) -> None:
        """Apply the maximum size: with a small share, a start on a busy machine takes five times as long."""
        run = self._runs.get(spec.endpoint_id) or new_run(spec, launch.install)
        self._cgroups.add_process(run.cgroup_name, pid, compute_sizes.build_limits(spec, spec.max_cu))

    def finish_start(self, spec: ComputeSpec, launch: LaunchOptions) -> None:
        """Apply the actual size and make the socket irreplaceable, once the server listens."""
        run = self._runs.get(spec.endpoint_id) or new_run(spec, launch.install)
        self._cgroups.resize(run.cgroup_name, compute_sizes.build_limits(spec, compute_sizes.choose_size(run, spec)))
        if not process.seal_socket_folder(launch.sockets, self._socket_users.gateway_gid):
            raise EngineError(
                "The compute replaced its socket with another file: suspend the endpoint.", transient=False
            )

    def cap_cpu(self, spec: ComputeSpec, launch: LaunchOptions) -> None:
        """Cap the CPU of a compute that serves clients; temporary computes and spares serve none.

        The cap is that of the maximum size, so that autoscaling sees how much more the compute would use.
        """
        if not (is_temporary(spec.endpoint_id) or is_spare(spec.endpoint_id)):
            run = self._runs.get(spec.endpoint_id) or new_run(spec, launch.install)
            self._cgroups.cap_cpu(run.cgroup_name, spec.max_cu)

    def write_files(self, volume: VolumeId, launch: LaunchOptions, target: ComputeTarget, cu: float) -> None:
        folder = self._volumes.folder(volume)
        # These two first, because postgresql.conf includes them.
        compute_sizes.write_size_settings(folder, cu)
        folder.write_conf(postgresql_conf.LIMITS_FILE, target.limits_text, launch.owner)
        for name, text in target.files.items():
            folder.write_conf(name, text, launch.owner)

    def _start_process(self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget) -> int:
        """Write the run before the process exists, so that every process is recorded."""
        before = self._runs.get(spec.endpoint_id)
        if before is not None:
            self._running.clean_up(before)
        cu = compute_sizes.choose_size(before, spec)
        self.write_files(spec.volume_id, launch, target, cu)
        run = update_run(new_run(spec, launch.install), spec, target, cu)
        self._runs.put(run)
        limits = compute_sizes.build_limits(spec, spec.max_cu)
        pid = process.start(launch, self._cgroups.enter_group(run.cgroup_name, limits))
        self._runs.put(replace(run, pid=pid))
        return pid


def _is_same_folder(reported: str, folder: Path) -> bool:
    """A compute from the warm pool reports its first name, which is a link.

    A tenant's code can change the reported path, so only its last component is looked up, in the platform's folder.
    """
    return os.path.realpath(folder.with_name(Path(reported).name or "-")) == os.path.realpath(folder)


def update_run(run: ComputeRun, spec: ComputeSpec, target: ComputeTarget, cu: float) -> ComputeRun:
    return replace(
        run, settings_digest=target.settings_digest, cu=cu, max_cu=spec.max_cu, limits_text=target.limits_text
    )


def new_run(spec: ComputeSpec, install: Install) -> ComputeRun:
    return ComputeRun(
        endpoint_id=spec.endpoint_id,
        project_id=spec.project_id,
        volume_id=spec.volume_id,
        install=install.id,
        settings_digest="",
        pid=None,
        preloaded=spec.settings.get(preload_libraries.PARAMETER, ""),
        pin=spec.install,
    )
