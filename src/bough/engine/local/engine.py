"""The engine of one machine: implements the engine port with the other modules of this package."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial

from bough.config import Settings
from bough.domain.catalog_change import CatalogChange, CreateRole, DeleteAllRows
from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.local import free_space
from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes import changes, truncation
from bough.engine.local.computes.compute_log import InsufficientStandbySettings
from bough.engine.local.computes.compute_sizes import ComputeSizes
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.read_only import ReadOnlyComputes
from bough.engine.local.computes.replication_slots import ReplicationSlots
from bough.engine.local.computes.replication_status import ReplicationMonitor
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.folders import Folders
from bough.engine.local.history.volume_history import VolumeHistory
from bough.engine.local.inspection import LocalInspection
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.sandbox import Sandbox
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.replicas import Replicas
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volume_packer import VolumePacker
from bough.engine.local.volumes.disk_usage import measure_own_bytes
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.local.warm.pool import WarmPool
from bough.engine.local.warm.spares import SpareComputes, SpareConfig
from bough.engine.port import (
    DEFAULT_CONTENTS_QUERY,
    BranchContents,
    Capabilities,
    ComputeUsage,
    ContentsQuery,
    EngineError,
    HistoryStatus,
    LoadSample,
    Observation,
    Origin,
    Readiness,
    ReplicaState,
    StorageUsage,
)
from bough.engine.spec import BranchSpec, ComputeSpec, PrimarySpec, build_compute_settings
from bough.ids import EndpointId, ProjectId, VolumeId
from bough.postgres.pg_hba import ROLE_PATTERNS_SINCE


class LocalEngine:
    """Call `prepare` first and `close` at the end; computes go on running afterwards.

    Inspecting and suspending also work without `prepare`, for a home whose platform is not running. `spare_cu` is the
    size of the computes in the warm pool; without it there is no pool.
    """

    def __init__(self, settings: Settings, *, spare_cu: float | None = None) -> None:
        self._settings = settings
        self._spare_cu = spare_cu
        self._folders = Folders(settings)
        self._install_catalog = InstallCatalog(settings.cache)
        self._sandbox = Sandbox(settings)
        self._volumes = Volumes(self._folders.volumes, self._folders.wal_archives)
        self._templates = Templates(self._folders.templates, self._volumes)
        self._cgroups = cgroups.detect_cgroups(settings)
        socket_users = self._sandbox.socket_users
        self._running = RunningComputes(self._folders, self._volumes, socket_users, self._cgroups)
        self._computes = Computes(self._running, self._folders, self._volumes, socket_users, self._cgroups)
        self._temporary = TemporaryComputes(self._computes, self._running)
        self._read_only_computes = ReadOnlyComputes(self._computes, self._running, self._temporary, self._volumes)
        self._sizes = ComputeSizes(self._running.runs, self._volumes, self._cgroups)
        self._project_users = ProjectUsers(self._sandbox, self._volumes)
        self._locks = NamedLocks()
        self._branch_volumes = BranchVolumes(
            self._volumes, self._templates, self._running, self._project_users, self._locks
        )
        self._history = VolumeHistory(
            self._volumes,
            self._templates,
            self._branch_volumes,
            running=self._running,
            temporary=self._temporary,
            project_users=self._project_users,
            locks=self._locks,
            install_catalog=self._install_catalog,
            spools=self._folders.spools,
            explain_shortage=lambda: free_space.explain_shortage(self._folders, settings.free_space_floor),
            base_bytes=settings.history_base_bytes,
        )
        self._packer = VolumePacker(self._volumes, self._running, self._folders, floor=settings.free_space_floor)
        slots = ReplicationSlots(self._folders, self._volumes)
        self._replicas = Replicas(
            self._branch_volumes,
            self._running,
            self._folders,
            self._volumes,
            self._locks,
            slots=slots,
            check_free_space=self._check_can_create,
        )
        self._replication_monitor = ReplicationMonitor(self._running, self._volumes, slots)
        self._inspection = LocalInspection(
            self._running, self._replication_monitor, self._sizes, self._folders, self._volumes
        )
        self._warm = WarmPool(
            SpareComputes(self._branch_volumes, self._computes, self._running, self._volumes, self._project_users),
            size=settings.warm_pool if spare_cu else 0,
            memory_share=settings.warm_memory_share,
            is_engine_busy=lambda: self._waiting > 0,
            check_capacity=self._check_can_create,
        )
        self._waiting = 0  # requests for a branch or a compute that a user waits for

    async def prepare(self, progress: Progress = ignore_progress) -> None:
        """Ensure folders, installs and templates; remove what a crash left, and adopt running computes."""
        with translate_os_errors():
            await run_shielded(self._folders.ensure)
            driver = await run_shielded(lambda: choose_driver(self._settings.storage, self._folders.volumes))
            self._volumes.configure(driver, self._folders.pg_wal)
            await run_shielded(self._sandbox.ensure_ready)
            await run_shielded(self._cgroups.ensure_ready)
            await self._install_catalog.refresh()
            await self._volumes.remove_leftovers()
            await self._running.adopt()
            await self._history.remove_leftovers()
            installs = self._install_catalog.require_majors(self._settings.postgres_versions)
            for install in installs:
                await run_shielded(partial(self._templates.ensure, install, progress))
            await self._warm.start(self._spare_config(installs[0]))
            await self._project_users.release_all_unused()

    async def stop_temporary(self) -> None:
        """Stop temporary computes that a killed control process left; `prepare` does so, too."""
        await self._running.stop_temporary()

    async def close(self) -> None:
        await self._warm.close()
        await asyncio.to_thread(self._packer.close)
        await asyncio.to_thread(self._volumes.close)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            installs={major: install.id for major, install in self._install_catalog.select_preferred().items()},
            has_isolation=self._sandbox.has_isolation,
            limits_summary=self._cgroups.summary,
            storage_driver=self._volumes.driver.name,
            creation_blocked_reason=free_space.explain_rejection(self._folders, self._settings.free_space_floor),
        )

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        install = await self._install_catalog.require_install(spec.install)
        # A recovery may take minutes, so it does not hold up the warm pool.
        lock = self._exclusive_with_priority if spec.point.is_head else self._exclusive
        async with lock(spec.volume_id):
            record = await asyncio.to_thread(self._volumes.folder(spec.volume_id).read_record)
            if record is None or record.is_pending:
                return await self._create_volume(spec, install, is_pending=record is not None)
            return record.origin if record.parent is not None else await self._history.template_origin(install)

    async def _create_volume(self, spec: BranchSpec, install: Install, *, is_pending: bool) -> Origin:
        await asyncio.to_thread(self._check_can_create)
        if is_pending:
            await self._history.drop_pending(spec.volume_id, spec.project_id)
        if spec.parent is not None and (not spec.point.is_head or await self._history.is_retired(spec.parent)):
            return await self._history.create_at_point(spec, spec.parent, install)
        if await self._project_users.has_no_user(spec.project_id) and await self._warm.assign(spec):
            return await self._history.template_origin(install)
        origin = await self._branch_volumes.create(spec, install)
        return origin if spec.parent is not None else await self._history.template_origin(install)

    async def apply_change(self, spec: BranchSpec, change: CatalogChange) -> None:
        install = await self._install_catalog.require_install(spec.install)
        async with self._exclusive_with_priority(spec.volume_id):
            sockets = await self._running.await_volume_sockets(spec.volume_id)
            if sockets is not None:
                await changes.apply_change(sockets, change, install.major)
                if isinstance(change, CreateRole) and install.major < ROLE_PATTERNS_SINCE:
                    folder = self._volumes.folder(spec.volume_id)
                    await changes.add_to_ident_map(change.name, folder, sockets, self._sandbox.socket_users)
                return
            settings = truncation.TRUNCATION_SETTINGS if isinstance(change, DeleteAllRows) else None
            async with self._temporary.start_on(spec, install, settings) as temporary:
                await changes.apply_change(temporary, change, install.major)

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        install = await self._install_catalog.require_install(spec.install)
        async with self._exclusive_with_priority(spec.endpoint_id), self._locks.lock(spec.volume_id):
            if spec.primary is not None:
                return await self._ensure_replica_running(spec, spec.primary, install)
            if spec.is_read_only:
                spec = await self._read_only_computes.prepare(spec, install)
            readiness = await self._computes.ensure_running(spec, install)
            if readiness is Readiness.READY:
                await self._replicas.sync_slots(spec)
            return readiness

    async def _ensure_replica_running(self, spec: ComputeSpec, primary: PrimarySpec, install: Install) -> Readiness:
        """Retry once, because a standby may report only at its start which limits it needs."""
        with suppress(InsufficientStandbySettings):
            return await self._computes.ensure_running(await self._replicas.prepare(spec, primary, install), install)
        return await self._computes.ensure_running(await self._replicas.prepare(spec, primary, install), install)

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        is_unassigned = False
        if is_spare(endpoint):  # only a shutdown of the platform stops spares
            await self._warm.close()
            is_unassigned = not await self._warm.is_assigned(endpoint)
        async with self._exclusive(endpoint):
            await self._running.stop(endpoint, immediate=is_unassigned)

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._exclusive(volume):
            await self._check_no_compute(volume)
            await self._history.drop_bases(project, volume)
            await self._replicas.drop_slot(volume)
            await self._volumes.ensure_absent(volume, project)
            await self._history.drop_archive(volume, project)
            await self._project_users.release_if_unused(project)

    async def read_branch_contents(
        self, spec: BranchSpec, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents:
        install = await self._install_catalog.require_install(spec.install)
        async with self._exclusive_with_priority(spec.volume_id):
            sockets = await self._running.await_volume_sockets(spec.volume_id)
            if sockets is not None:
                return await self._inspection.read_contents_at(sockets, query)
            contents = await self._history.pop_contents(spec.volume_id)
            if contents is not None and contents.is_complete_for(query):
                return contents
            async with self._temporary.start_on(spec, install) as temporary:
                return await self._inspection.read_contents_at(temporary, query)

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        return await self._history.read_wal_end(volume)

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        with translate_os_errors():
            await asyncio.to_thread(self._folders.check_storage)
            return await self._history.apply_retention(volume, since, take_bases=take_bases)

    async def ensure_history_started(self, project: ProjectId, volume: VolumeId) -> HistoryStatus:
        async with self._exclusive(volume):
            await self._check_no_compute(volume)
        with translate_os_errors():
            return await self._history.start_history(volume)

    async def retire_volume(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._exclusive(volume):
            await self._check_no_compute(volume)
            await self._replicas.drop_slot(volume)
            await self._history.retire(volume, project)

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._exclusive(volume):
            await self._packer.pack(volume)

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._exclusive_with_priority(volume):
            await self._packer.unpack(volume)

    async def measure_volume(self, volume: VolumeId) -> int | None:
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(folder.read_record)
        if record is None:
            return None
        with translate_os_errors():
            return await self._volumes.run_blocking(lambda: measure_own_bytes(folder), record.project_id)

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        sockets = await self._running.find_sockets(endpoint)
        return None if sockets is None else ComputeAddress(host=str(sockets), port=5432)

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        return await self._inspection.measure_usage(endpoint)

    async def read_cpu_seconds(self) -> Mapping[EndpointId, float]:
        return await self._inspection.read_cpu_seconds()

    async def measure_storage(self, endpoint: EndpointId) -> StorageUsage | None:
        return await self._inspection.measure_storage(endpoint)

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        return await self._replication_monitor.read_state(endpoint)

    async def read_compute_contents(
        self, endpoint: EndpointId, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents | None:
        return await self._inspection.read_contents(endpoint, query)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        return await self._inspection.is_busy(endpoint)

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        return await asyncio.to_thread(self._sizes.read_load, endpoint)

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        async with self._exclusive(endpoint):
            await run_shielded(lambda: self._sizes.resize(endpoint, cu))

    async def observe(self) -> Observation:
        return await self._inspection.observe()

    async def _check_no_compute(self, volume: VolumeId) -> None:
        """Check that no endpoint's compute runs on the volume, after stopping temporary ones."""
        await self._running.stop_unassigned(volume)
        if await self._running.has_compute(volume):
            raise EngineError("A compute still runs on the branch; suspend it first.")

    def _spare_config(self, install: Install) -> SpareConfig:
        cu = self._spare_cu or 0.25
        return SpareConfig(install=install, settings=build_compute_settings(cu, logical_replication=False), cu=cu)

    def _check_can_create(self) -> None:
        """Check before creating anything that the storage is mounted and has free space."""
        self._folders.check_storage()
        free_space.check_free_space(self._folders, self._settings.free_space_floor)

    @asynccontextmanager
    async def _exclusive(self, name: str) -> AsyncIterator[None]:
        """Lock the name, and check that the storage is mounted: without it every volume would seem absent."""
        async with self._locks.lock(name):
            with translate_os_errors():
                await asyncio.to_thread(self._folders.check_storage)
                yield

    @asynccontextmanager
    async def _exclusive_with_priority(self, name: str) -> AsyncIterator[None]:
        """Lock likewise for a request that a user waits for, to which the warm pool gives way."""
        self._waiting += 1
        try:
            async with self._exclusive(name):
                yield
        finally:
            self._waiting -= 1
