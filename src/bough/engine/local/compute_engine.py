"""Starts, stops, resizes and observes the computes of endpoints on this machine."""

import asyncio
from contextlib import suppress
from functools import partial

from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.local.components import EngineComponents
from bough.engine.local.computes import auditing
from bough.engine.local.computes.compute_log import InsufficientStandbySettings
from bough.engine.local.computes.preloading import Preloading
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import run_shielded
from bough.engine.port import LoadSample, Readiness, ReplicaState
from bough.engine.spec import ComputeSpec, PrimarySpec
from bough.ids import EndpointId, VolumeId


class LocalComputeEngine:
    """Implements ComputeEngine."""

    def __init__(self, components: EngineComponents) -> None:
        self._audit_logs = components.audit_logs
        self._resource_locks = components.resource_locks
        self._build_moves = components.build_moves
        self._computes = components.computes
        self._extension_checks = components.extension_checks
        self._folders = components.folders
        self._inspection = components.inspection
        self._kept_sessions = components.kept_sessions
        self._install_catalog = components.install_catalog
        self._locks = components.locks
        self._read_only_computes = components.read_only_computes
        self._replicas = components.replicas
        self._replication_monitor = components.replication_monitor
        self._running = components.running
        self._runs = components.runs
        self._sizes = components.sizes
        self._warm = components.warm
        self._preloading = Preloading(components.running)

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        install = await self._install_catalog.require_install(spec.install, spec.project_id)
        async with self._resource_locks.lock_for_request(spec.endpoint_id), self._locks.lock(spec.volume_id):
            return await self._build_moves.start(spec, install, partial(self._start_with, spec))

    async def _start_with(self, spec: ComputeSpec, install: Install) -> Readiness:
        if spec.audit_level is not None:
            spec = await asyncio.to_thread(auditing.preload, spec, install)
        return await self._preloading.start(spec, install, partial(self._ensure_running, install=install))

    async def _ensure_running(self, spec: ComputeSpec, *, install: Install) -> Readiness:
        if spec.audit_level is not None:
            spec = await asyncio.to_thread(auditing.complete, spec, install, self._folders)
        if spec.primary is not None:
            return await self._ensure_replica_running(spec, spec.primary, install)
        if spec.is_read_only:
            spec = await self._read_only_computes.prepare(spec, install)
        readiness = await self._computes.ensure_running(spec, install)
        if readiness is Readiness.READY:
            await self._replicas.sync_slots(spec)
        return readiness

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        is_unassigned = False
        if is_spare(endpoint):  # only a shutdown of the platform stops spares
            await self._warm.close()
            is_unassigned = not await self._warm.is_assigned(endpoint)
        async with self._resource_locks.lock(endpoint):
            await self._extension_checks.check_before_stop(endpoint)
            self._kept_sessions.drop(endpoint)
            await self._running.stop(endpoint, immediate=is_unassigned)

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        async with self._resource_locks.lock(endpoint):
            await run_shielded(lambda: self._sizes.resize(endpoint, cu))

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        sockets = await self._running.find_sockets(endpoint)
        return None if sockets is None else ComputeAddress(host=str(sockets), port=5432)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        return await self._inspection.is_busy(endpoint)

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        return await asyncio.to_thread(self._sizes.read_load, endpoint)

    async def list_preloaded(self, endpoint: EndpointId) -> tuple[str, ...] | None:
        run = await asyncio.to_thread(self._runs.get, endpoint)
        return None if run is None else tuple(name for name in (run.preloaded or "").split(",") if name)

    async def collect_audit_logs(self) -> int:
        return await asyncio.to_thread(self._audit_logs.collect_all)

    async def allow_failed_build(self, volume: VolumeId) -> None:
        await self._build_moves.allow_failed_build(volume)

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        return await self._replication_monitor.read_state(endpoint)

    async def _ensure_replica_running(self, spec: ComputeSpec, primary: PrimarySpec, install: Install) -> Readiness:
        """Retry once, because a standby may report only at its start which limits it needs."""
        with suppress(InsufficientStandbySettings):
            return await self._computes.ensure_running(await self._replicas.prepare(spec, primary, install), install)
        return await self._computes.ensure_running(await self._replicas.prepare(spec, primary, install), install)
