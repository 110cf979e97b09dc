"""Start and reconfigure computes: one `postgres` on one volume for one endpoint, as its spec says."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local.computes import auditing, compute_sizes, metrics, process, standby_files
from bough.engine.local.computes.compute_launcher import ComputeLauncher, new_run, update_run
from bough.engine.local.computes.compute_log import InsufficientStandbySettings
from bough.engine.local.computes.launch_options import LaunchOptions
from bough.engine.local.computes.postmaster_process import Postmaster
from bough.engine.local.computes.roles_and_databases import ensure_roles_and_databases
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns, is_temporary
from bough.engine.local.computes.session import open_session
from bough.engine.local.computes.target import ComputeTarget, build_target
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.postgres import preload_libraries, statement_audit

READY_TIMEOUT = 10.0  # seconds until ensure_running returns STARTING
_MIN_RETRY_PAUSE = 0.05  # seconds between attempts after a transient error
_MAX_RETRY_PAUSE = 1.0


class Computes:
    def __init__(
        self,
        running: RunningComputes,
        launcher: ComputeLauncher,
        volumes: Volumes,
        socket_users: SocketUsers,
        runs: ComputeRuns,
    ) -> None:
        self._running = running
        self._launcher = launcher
        self._volumes = volumes
        self._socket_users = socket_users
        self._runs = runs

    async def ensure_running(self, spec: ComputeSpec, install: Install) -> Readiness:
        started = clock.monotonic()
        target = build_target(spec, major=install.major, socket_users=self._socket_users)
        launch, kind = await run_shielded(lambda: self._launcher.prepare(spec, install))
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
        if run is None or run.settings_digest != target.settings_digest or run.install != install.id:
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
        launch, _ = await run_shielded(lambda: self._launcher.prepare(spec, install))
        target = build_target(spec, major=install.major, socket_users=self._socket_users)
        await ensure_roles_and_databases(spec, launch, target, self._volumes.folder(spec.volume_id), sockets)

    async def _try_ensure_running(
        self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget, deadline: float
    ) -> Readiness | None:
        """Return None when the compute was stopped, because changed settings need a restart."""
        server = await self._launcher.find_live(spec, launch) or await self._launcher.start(spec, launch, target)
        with server:
            # While the server starts, because moving a process to a control group takes some milliseconds.
            await run_shielded(lambda: self._launcher.limit_start(spec, launch, server.pid))
            if not await process.wait_until_ready(server, launch, deadline):
                return Readiness.STARTING
            if auditing.uses_pgaudit(spec, launch.install):
                # No client can connect yet: the folder of the socket is still closed.
                async with open_session(launch.sockets) as session:
                    await session.execute(statement_audit.LOCK_PGAUDIT)
            await run_shielded(lambda: self._launcher.finish_start(spec, launch))
            if await self._needs_restart(spec, launch, target, server):
                await process.stop(server)
                return None
        if not is_temporary(spec.endpoint_id):
            await ensure_roles_and_databases(spec, launch, target, self._volumes.folder(spec.volume_id), launch.sockets)
        # Last, because a start, its recovery and the creation of roles would take longer.
        await run_shielded(lambda: self._launcher.cap_cpu(spec, launch))
        return Readiness.READY

    async def _needs_restart(
        self, spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget, server: Postmaster
    ) -> bool:
        """Apply changed settings by a reload. The run records them as active only after that."""
        if spec.primary is None and standby_files.has_signal(launch.data) != spec.is_read_only:
            return True
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id) or new_run(spec, launch.install)
        cu = compute_sizes.choose_size(run, spec)
        updated = update_run(run, spec, target, cu)
        if run == updated:
            return False
        await run_shielded(lambda: self._launcher.write_files(spec.volume_id, launch, target, cu))
        if replace(run, limits_text=target.limits_text) == updated:
            # A new project got a spare that was configured for another plan. Waiting would delay its first query.
            server.signal(signal.SIGHUP)
            await asyncio.to_thread(self._runs.put, updated)
            return False
        async with open_session(launch.sockets) as session:
            pending = await session.reload()
        if not pending.needs_restart:
            waiting = sorted({*pending.waiting, *_list_other_libraries(run, spec)})
            await asyncio.to_thread(self._runs.put, replace(updated, waiting=",".join(waiting)))
        return pending.needs_restart

    async def _stop_on_other_volume(self, spec: ComputeSpec) -> None:
        """After a restore the endpoint has another volume than the one its compute runs on."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is not None and run.volume_id != spec.volume_id:
            await self._running.stop(spec.endpoint_id)


def _list_other_libraries(run: ComputeRun, spec: ComputeSpec) -> list[str]:
    """Return the parameter of preloaded libraries if the compute runs with others.

    It is an argument of the server, so that Postgres does not notice the change.
    """
    requested = spec.settings.get(preload_libraries.PARAMETER, "")
    return [preload_libraries.PARAMETER] if run.preloaded is not None and run.preloaded != requested else []
