"""One `postgres` on one volume for one endpoint, running exactly as its spec says."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local.computes import (
    compute_sizes,
    logical_replication,
    metrics,
    postmaster,
    process,
    session,
    standby_files,
)
from bough.engine.local.computes.compute_log import InsufficientStandbySettings
from bough.engine.local.computes.metrics import StartKind
from bough.engine.local.computes.postmaster import STOPPING, PidFile, Postmaster
from bough.engine.local.computes.process import LaunchOptions
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.computes.target import ComputeTarget, build_target
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from bough.postgres import MAINTENANCE_DATABASE, postgresql_conf
from bough.postgres.template import SPARE_DATABASE

READY_TIMEOUT = 10.0  # then the caller is told that it is starting, and asks again
_SHORTEST_PAUSE = 0.05  # between two tries, which wait for what may pass soon
_LONGEST_PAUSE = 1.0


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
        began = clock.monotonic()
        wished = build_target(spec, major=install.major, socket_users=self._socket_users)
        launch, kind = await run_shielded(lambda: self._prepared(spec, install))
        await self._leave_other_volume(spec)
        until = began + READY_TIMEOUT
        pause = _SHORTEST_PAUSE
        while True:
            try:
                readiness = await self._try_ensure_running(spec, launch, wished, until)
            except EngineError as error:
                passes = error.transient and not isinstance(error, InsufficientStandbySettings)
                if not passes or clock.monotonic() >= until:
                    metrics.record_start_failure()
                    await self._running.clean_up_if_dead(spec.endpoint_id)
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if readiness is Readiness.READY and kind is not None:
                    metrics.record_start(kind, clock.monotonic() - began)
                if readiness is not None:
                    return readiness

    async def is_running_with(self, spec: ComputeSpec, install: Install) -> bool:
        """Whether it lives with exactly these settings in force."""
        wished = build_target(spec, major=install.major, socket_users=self._socket_users)
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is None or run.settings != wished.settings_digest or run.install != install.id:
            return False
        return await self._running.find_sockets(spec.endpoint_id) is not None

    async def is_provisioned(self, spec: ComputeSpec, install: Install) -> bool:
        """Whether its Postgres has nothing to be told of roles and databases."""
        applied = await asyncio.to_thread(self._volumes.folder(spec.volume_id).read_applied_digest)
        if applied is None and not (spec.target_verifiers or spec.databases or spec.has_logical_replication):
            return True
        return build_target(spec, major=install.major, socket_users=self._socket_users).is_applied(applied)

    async def provision(self, spec: ComputeSpec, install: Install, sockets: Path) -> None:
        """Roles and databases, by another compute on its volume."""
        launch, _ = await run_shielded(lambda: self._prepared(spec, install))
        await self._apply(
            spec, launch, build_target(spec, major=install.major, socket_users=self._socket_users), sockets
        )

    async def _try_ensure_running(
        self, spec: ComputeSpec, launch: LaunchOptions, wished: ComputeTarget, until: float
    ) -> Readiness | None:
        """One go at the wish; None when the compute was stopped for settings that need a restart."""
        live = await self._find_live(spec, launch) or await self._start(spec, launch, wished)
        with live:
            # While the server starts: to move a process takes the kernel some milliseconds.
            await run_shielded(lambda: self._limit(spec, live.pid))
            if not await process.wait_until_ready(live, launch, until):
                return Readiness.STARTING
            await run_shielded(lambda: self._settle(spec, launch))
            if await self._needs_restart(spec, launch, wished, live):
                await process.stop(live)
                return None
        if not is_temporary(spec.endpoint_id):
            await self._apply(spec, launch, wished, launch.sockets)
        return Readiness.READY

    async def _find_live(self, spec: ComputeSpec, launch: LaunchOptions) -> Postmaster | None:
        """The compute that serves the volume already; one that is stopping is waited for."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        live = await asyncio.to_thread(postmaster.find, launch.data, run.pid if run else None)
        file = PidFile.read(launch.data)
        if live is None or file is None:
            return live
        if file.status == STOPPING:
            with live:
                await process.stop(live)
            return None
        if not file.socket_folder or _is_same(file.socket_folder, launch.sockets):
            return live
        live.close()
        name = Path(file.socket_folder).name
        if not (is_spare(name) or is_temporary(name)):
            raise EngineError("Another endpoint's compute still runs on the branch.")
        await self._running.stop_unassigned(
            spec.volume_id
        )  # a crash lost a spare's run, and with it the way to its sockets
        return None

    async def _start(self, spec: ComputeSpec, launch: LaunchOptions, wished: ComputeTarget) -> Postmaster:
        pid = await run_shielded(lambda: self._start_now(spec, launch, wished))
        live = Postmaster.open(pid)
        if live is None:
            raise EngineError("The compute ended as soon as it was started.")
        return live

    def _start_now(self, spec: ComputeSpec, launch: LaunchOptions, wished: ComputeTarget) -> int:
        """The run is written before the process exists: a compute that nobody knows of cannot be."""
        before = self._runs.get(spec.endpoint_id)
        if before is not None:
            self._running.clean_up(before)
        cu = compute_sizes.choose_size(before, spec)
        self._write_files(spec.volume_id, launch, wished, cu)
        run = replace(_run(spec, settings=wished.settings_digest), cu=cu, max_cu=spec.max_cu, limits=wished.limits_text)
        self._runs.put(run)
        pid = process.start(
            launch, self._cgroups.enter_group(run.cgroup_name, compute_sizes.build_limits(spec, spec.max_cu))
        )
        self._runs.put(replace(run, pid=pid))
        return pid

    def _limit(self, spec: ComputeSpec, pid: int) -> None:
        """To the largest size: with the share of a small one a start on a busy machine takes five times as long."""
        run = self._runs.get(spec.endpoint_id) or _run(spec, settings="")
        self._cgroups.add_process(run.cgroup_name, pid, compute_sizes.build_limits(spec, spec.max_cu))

    def _settle(self, spec: ComputeSpec, launch: LaunchOptions) -> None:
        """It listens: from now on it has its own size, and nobody can replace its socket."""
        run = self._runs.get(spec.endpoint_id) or _run(spec, settings="")
        self._cgroups.resize(run.cgroup_name, compute_sizes.build_limits(spec, compute_sizes.choose_size(run, spec)))
        if not process.seal_socket_folder(launch.sockets, self._socket_users.gateway_gid):
            raise EngineError("The compute replaced its socket by something else: suspend it.", transient=False)

    async def _needs_restart(
        self, spec: ComputeSpec, launch: LaunchOptions, wished: ComputeTarget, live: Postmaster
    ) -> bool:
        """Bring changed settings in by a reload. They count as in force only when that is done."""
        if spec.primary is None and standby_files.has_signal(launch.data) != spec.is_read_only:
            return True
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id) or _run(spec, settings="")
        cu = compute_sizes.choose_size(run, spec)
        fitting = replace(run, settings=wished.settings_digest, cu=cu, max_cu=spec.max_cu, limits=wished.limits_text)
        if run == fitting:
            return False
        await run_shielded(lambda: self._write_files(spec.volume_id, launch, wished, cu))
        if replace(run, limits=wished.limits_text) == fitting:
            # A new project takes a spare that was made for another plan: to wait would slow its first query.
            live.signal(signal.SIGHUP)
            await asyncio.to_thread(self._runs.put, fitting)
            return False
        async with session.open_session(launch.sockets) as ours:
            waiting = await ours.reload()
        if not waiting:
            await asyncio.to_thread(self._runs.put, fitting)
        return waiting

    async def _apply(self, spec: ComputeSpec, launch: LaunchOptions, wished: ComputeTarget, sockets: Path) -> None:
        """Roles and databases, only when they changed: a wake needs no statement."""
        folder = self._volumes.folder(spec.volume_id)
        applied = await asyncio.to_thread(folder.read_applied_digest)
        if wished.is_applied(applied):
            return
        fresh = applied is None and launch.from_template
        async with session.open_session(sockets, _first_database(spec) if fresh else MAINTENANCE_DATABASE) as ours:
            replicates = await ours.apply_roles_and_databases(
                spec.target_verifiers, spec.databases, major=launch.install.major, is_fresh=fresh
            )
            if spec.primary is None and spec.has_logical_replication:
                await logical_replication.ensure_enabled(sockets, ours, launch.install.major)
            elif spec.primary is None and replicates:
                await logical_replication.ensure_disabled(ours)
        await run_shielded(lambda: folder.write_applied_digest(wished.applied_text))

    async def _leave_other_volume(self, spec: ComputeSpec) -> None:
        """After a restore the endpoint serves another volume than the one its compute runs on."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is not None and run.volume_id != spec.volume_id:
            await self._running.stop(spec.endpoint_id)

    def _prepared(self, spec: ComputeSpec, install: Install) -> tuple[LaunchOptions, StartKind | None]:
        """What to start with, and which kind of start it will be; None: it runs already, or does not count."""
        folder = self._volumes.folder(spec.volume_id)
        record = self._checked_record(folder, install)
        if record.is_pending and not is_temporary(spec.endpoint_id):
            raise EngineError("The branch's volume is still being recovered to its point.")
        if not is_spare(spec.volume_id) and spec.primary is None:
            self._volumes.ensure_archive(spec.volume_id, folder.owner)
        launch = LaunchOptions(
            install=install,
            from_template=record.parent is None,
            data=folder.data,
            wal=folder.pg_wal_of(record),
            conf=folder.conf,
            sockets=self._folders.socket_folder(spec.endpoint_id),
            log=self._folders.log_file(spec.endpoint_id),
            owner=folder.owner,
            namespace=self._folders.mount_namespace,
            is_standby=spec.primary is not None or spec.is_read_only,
        )
        if is_temporary(spec.endpoint_id):
            return launch, None
        if record.spare_name is not None and self._running.spare_assignment.assign_compute(record.spare_name, spec):
            return launch, "warm"
        if postmaster.is_alive(folder.data):
            return launch, None
        return launch, "wake" if folder.read_applied_digest() else "new"

    def _checked_record(self, folder: VolumeFolder, install: Install) -> VolumeRecord:
        record = folder.read_record()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        folder.check_not_archived()
        if record.install != install.id:
            raise EngineError(
                f"The branch was made by {record.install} and is not opened by {install.id}.", transient=False
            )
        return record

    def _write_files(self, volume: VolumeId, launch: LaunchOptions, wished: ComputeTarget, cu: float) -> None:
        compute_sizes.write_size_settings(
            self._volumes.folder(volume), cu
        )  # these first, because another includes them
        self._volumes.folder(volume).write_conf(postgresql_conf.LIMITS_FILE, wished.limits_text, launch.owner)
        for name, text in wished.files.items():
            self._volumes.folder(volume).write_conf(name, text, launch.owner)


def _first_database(spec: ComputeSpec) -> str:
    """Where nobody has been yet, the database that its owner enters first: our session fills its caches."""
    wished = {database.name for database in spec.databases}
    return SPARE_DATABASE if SPARE_DATABASE in wished else MAINTENANCE_DATABASE


def _is_same(told: str, folder: Path) -> bool:
    """A compute from the warm pool tells its first name, which is a link.

    What is told is a tenant's word: only its last part is looked up, in the folder of sockets, which is ours.
    """
    return os.path.realpath(folder.with_name(Path(told).name or "-")) == os.path.realpath(folder)


def _run(spec: ComputeSpec, *, settings: str) -> ComputeRun:
    return ComputeRun(
        endpoint_id=spec.endpoint_id,
        project_id=spec.project_id,
        volume_id=spec.volume_id,
        install=spec.install,
        settings=settings,
        pid=None,
    )
