"""Start and reconfigure computes: one `postgres` on one volume for one endpoint, as its spec says."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local.computes import (
    compute_sizes,
    metrics,
    postmaster,
    process,
    standby_files,
)
from bough.engine.local.computes.compute_log import InsufficientStandbySettings
from bough.engine.local.computes.launch_options import LaunchOptions, build_launch_options, read_checked_record
from bough.engine.local.computes.metrics import StartKind
from bough.engine.local.computes.postmaster import STOPPING, PidFile, Postmaster
from bough.engine.local.computes.roles_and_databases import ensure_roles_and_databases
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.session import open_session
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.computes.target import ComputeTarget, build_target
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from bough.postgres import postgresql_conf

READY_TIMEOUT = 10.0  # seconds until ensure_running returns STARTING
_MIN_RETRY_PAUSE = 0.05  # seconds between attempts after a transient error
_MAX_RETRY_PAUSE = 1.0


class Computes:
    def __init__(
        self, running: RunningComputes, folders: Folders, volumes: Volumes, socket_users: SocketUsers, cgroups: Cgroups
    ) -> None:
        self._running = running
        self._runs = running.runs
        self._folders = folders
        self._volumes = volumes
        self._socket_users = socket_users
        self._cgroups = cgroups

    async def ensure_running(self, spec: ComputeSpec, install: Install) -> Readiness:
        started = clock.monotonic()
        target = build_target(spec, major=install.major, socket_users=self._socket_users)
        launch, kind = await run_shielded(lambda: self._prepare_launch(spec, install))
        await self._stop_on_other_volume(spec)
        deadline = started + READY_TIMEOUT
        pause = _MIN_RETRY_PAUSE
        while True:
            try:
                readiness = await self._try_ensure_running(spec, launch, target, deadline)
            except EngineError as error:
                is_retryable = error.transient and not isinstance(error, InsufficientStandbySettings)
                if not is_retryable or clock.monotonic() >= deadline:
                    metrics.record_start_failure()
                    await self._running.clean_up_if_dead(spec.endpoint_id)
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_RETRY_PAUSE)
            else:
                if readiness is Readiness.READY and kind is not None:
                    metrics.record_start(kind, clock.monotonic() - started)
                if readiness is not None:
                    return readiness

    async def is_running_with(self, spec: ComputeSpec, install: Install) -> bool:
        """Return whether it runs with exactly these settings."""
        target = build_target(spec, major=install.major, socket_users=self._socket_users)
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is None or run.settings != target.settings_digest or run.install != install.id:
            return False
        return await self._running.find_sockets(spec.endpoint_id) is not None

    async def is_provisioned(self, spec: ComputeSpec, install: Install) -> bool:
        """Return whether it has all roles and databases of the spec."""
        applied = await asyncio.to_thread(self._volumes.folder(spec.volume_id).read_applied_digest)
        if applied is None and not (spec.target_verifiers or spec.databases or spec.has_logical_replication):
            return True
        return build_target(spec, major=install.major, socket_users=self._socket_users).is_applied(applied)

    async def provision(self, spec: ComputeSpec, install: Install, sockets: Path) -> None:
        """Create roles and databases through another compute on its volume, which listens in `sockets`."""
        launch, _ = await run_shielded(lambda: self._prepare_launch(spec, install))
        target = build_target(spec, major=install.major, socket_users=self._socket_users)
        await ensure_roles_and_databases(spec, launch, target, self._volumes.folder(spec.volume_id), sockets)

    async def _try_ensure_running(
        self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget, deadline: float
    ) -> Readiness | None:
        """Return None when the compute was stopped, because changed settings need a restart."""
        server = await self._find_live(spec, launch) or await self._start(spec, launch, target)
        with server:
            # While the server starts, because moving a process to a control group takes some milliseconds.
            await run_shielded(lambda: self._limit_start(spec, server.pid))
            if not await process.wait_until_ready(server, launch, deadline):
                return Readiness.STARTING
            await run_shielded(lambda: self._finish_start(spec, launch))
            if await self._needs_restart(spec, launch, target, server):
                await process.stop(server)
                return None
        if not is_temporary(spec.endpoint_id):
            await ensure_roles_and_databases(spec, launch, target, self._volumes.folder(spec.volume_id), launch.sockets)
        return Readiness.READY

    async def _find_live(self, spec: ComputeSpec, launch: LaunchOptions) -> Postmaster | None:
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

    async def _start(self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget) -> Postmaster:
        pid = await run_shielded(lambda: self._start_process(spec, launch, target))
        server = Postmaster.open(pid)
        if server is None:
            raise EngineError("The compute exited immediately after its start.")
        return server

    def _start_process(self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget) -> int:
        """Write the run before the process exists, so that every process is recorded."""
        before = self._runs.get(spec.endpoint_id)
        if before is not None:
            self._running.clean_up(before)
        cu = compute_sizes.choose_size(before, spec)
        self._write_files(spec.volume_id, launch, target, cu)
        run = _update_run(_new_run(spec), spec, target, cu)
        self._runs.put(run)
        limits = compute_sizes.build_limits(spec, spec.max_cu)
        pid = process.start(launch, self._cgroups.enter_group(run.cgroup_name, limits))
        self._runs.put(replace(run, pid=pid))
        return pid

    def _limit_start(self, spec: ComputeSpec, pid: int) -> None:
        """Apply the maximum size: with a small share, a start on a busy machine takes five times as long."""
        run = self._runs.get(spec.endpoint_id) or _new_run(spec)
        self._cgroups.add_process(run.cgroup_name, pid, compute_sizes.build_limits(spec, spec.max_cu))

    def _finish_start(self, spec: ComputeSpec, launch: LaunchOptions) -> None:
        """Apply the actual size and make the socket irreplaceable, once the server listens."""
        run = self._runs.get(spec.endpoint_id) or _new_run(spec)
        self._cgroups.resize(run.cgroup_name, compute_sizes.build_limits(spec, compute_sizes.choose_size(run, spec)))
        if not process.seal_socket_folder(launch.sockets, self._socket_users.gateway_gid):
            raise EngineError("The compute replaced its socket by something else: suspend it.", transient=False)

    async def _needs_restart(
        self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget, server: Postmaster
    ) -> bool:
        """Apply changed settings by a reload. The run records them as active only after that."""
        if spec.primary is None and standby_files.has_signal(launch.data) != spec.is_read_only:
            return True
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id) or _new_run(spec)
        cu = compute_sizes.choose_size(run, spec)
        updated = _update_run(run, spec, target, cu)
        if run == updated:
            return False
        await run_shielded(lambda: self._write_files(spec.volume_id, launch, target, cu))
        if replace(run, limits_text=target.limits_text) == updated:
            # A new project got a spare that was configured for another plan. Waiting would delay its first query.
            server.signal(signal.SIGHUP)
            await asyncio.to_thread(self._runs.put, updated)
            return False
        async with open_session(launch.sockets) as session:
            needs_restart = await session.reload()
        if not needs_restart:
            await asyncio.to_thread(self._runs.put, updated)
        return needs_restart

    async def _stop_on_other_volume(self, spec: ComputeSpec) -> None:
        """After a restore the endpoint has another volume than the one its compute runs on."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is not None and run.volume_id != spec.volume_id:
            await self._running.stop(spec.endpoint_id)

    def _prepare_launch(self, spec: ComputeSpec, install: Install) -> tuple[LaunchOptions, StartKind | None]:
        """Return the launch options and the kind of start, which is None if it already runs or is temporary."""
        folder = self._volumes.folder(spec.volume_id)
        record = read_checked_record(folder, install)
        if record.is_pending and not is_temporary(spec.endpoint_id):
            raise EngineError("The branch's volume is still being recovered.")
        if not is_spare(spec.volume_id) and spec.primary is None:
            self._volumes.ensure_archive(spec.volume_id, folder.owner)
        launch = build_launch_options(spec, install, self._folders, folder, record)
        if is_temporary(spec.endpoint_id):
            return launch, None
        if record.spare_name is not None and self._running.spare_assignment.assign_compute(record.spare_name, spec):
            return launch, "warm"
        if postmaster.is_alive(folder.data):
            return launch, None
        return launch, "wake" if folder.read_applied_digest() else "new"

    def _write_files(self, volume: VolumeId, launch: LaunchOptions, target: ComputeTarget, cu: float) -> None:
        folder = self._volumes.folder(volume)
        # These two first, because postgresql.conf includes them.
        compute_sizes.write_size_settings(folder, cu)
        folder.write_conf(postgresql_conf.LIMITS_FILE, target.limits_text, launch.owner)
        for name, text in target.files.items():
            folder.write_conf(name, text, launch.owner)


def _is_same_folder(reported: str, folder: Path) -> bool:
    """A compute from the warm pool reports its first name, which is a link.

    A tenant's code can change the reported path, so only its last component is looked up, in the platform's folder.
    """
    return os.path.realpath(folder.with_name(Path(reported).name or "-")) == os.path.realpath(folder)


def _update_run(run: ComputeRun, spec: ComputeSpec, target: ComputeTarget, cu: float) -> ComputeRun:
    return replace(run, settings=target.settings_digest, cu=cu, max_cu=spec.max_cu, limits_text=target.limits_text)


def _new_run(spec: ComputeSpec) -> ComputeRun:
    return ComputeRun(
        endpoint_id=spec.endpoint_id,
        project_id=spec.project_id,
        volume_id=spec.volume_id,
        install=spec.install,
        settings="",
        pid=None,
    )
