"""The engine of one machine: implements the engine port with the other modules of this package."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial

from bough.config import Settings
from bough.domain.catalog_change import CatalogChange
from bough.domain.gateway_protocol import ComputeAddress
from bough.domain.maintenance import RestartNeed
from bough.domain.statement_handle import StatementHandle
from bough.engine.local import free_space
from bough.engine.local.branch_engine import LocalBranchEngine
from bough.engine.local.components import EngineComponents
from bough.engine.local.compute_engine import LocalComputeEngine
from bough.engine.local.installs import moved_cache
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.postgres_builds import PostgresBuilds
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.port import (
    DEFAULT_CONTENTS_QUERY,
    BranchContents,
    Build,
    Capabilities,
    ComputeStatistics,
    ComputeUsage,
    ContentsQuery,
    HistoryStatus,
    IndexToRebuild,
    LoadSample,
    MachineSample,
    Observation,
    OfferedExtensions,
    Origin,
    ProcessSample,
    PutBackBuild,
    Readiness,
    ReplicaState,
    RunningStatement,
    SignalOutcome,
    StatementStatistics,
    StatisticsQuery,
    StorageUsage,
)
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import EndpointId, ProjectId, VolumeId


class LocalEngine:
    """Call `prepare` first and `close` at the end; computes go on running afterwards.

    Inspecting and suspending also work without `prepare`, for a home whose platform is not running. `spare_cu` is the
    size of the computes in the warm pool; without it there is no pool.
    """

    def __init__(self, settings: Settings, *, spare_cu: float | None = None) -> None:
        self._settings = settings
        self._components = EngineComponents(settings, warm_pool_size=settings.warm_pool if spare_cu else 0)
        self._branches = LocalBranchEngine(self._components)
        self._computes = LocalComputeEngine(self._components)
        self._builds = PostgresBuilds(self._components, settings, spare_cu)
        self._history = self._components.history
        self._inspection = self._components.inspection
        self._sampling = self._components.sampling
        self._statements = self._components.statements

    async def prepare(self, progress: Progress = ignore_progress) -> None:
        """Ensure folders, installs and templates; remove what a crash left, and adopt running computes."""
        parts = self._components
        with translate_os_errors():
            await run_shielded(parts.folders.ensure)
            await run_shielded(parts.thin_space.start)
            driver = await run_shielded(lambda: choose_driver(self._settings.storage, parts.folders.volumes))
            parts.volumes.configure(driver, parts.folders.pg_wal)
            await run_shielded(parts.sandbox.ensure_ready)
            await run_shielded(parts.cgroups.ensure_ready)
            await run_shielded(partial(moved_cache.repair, self._settings.cache))
            await parts.install_catalog.refresh()
            await parts.volumes.remove_leftovers()
            await parts.running.adopt()
            await run_shielded(partial(parts.build_uses.record_running, parts.runs.list_all()))
            await parts.history.remove_leftovers()
            await self._builds.start(progress)
            await self._builds.record_use()
            await parts.project_users.release_all_unused()

    async def stop_temporary(self) -> None:
        """Stop temporary computes that a killed control process left; `prepare` does so, too."""
        await self._components.running.stop_temporary()

    async def close(self) -> None:
        await self._components.warm.close()
        await self._sampling.retain_sessions(())
        await asyncio.to_thread(self._components.packer.close)
        await asyncio.to_thread(self._components.volumes.close)
        await asyncio.to_thread(self._components.thin_space.close)

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        return await self._branches.ensure_branch(spec)

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        await self._branches.ensure_absent(project, volume)

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        await self._branches.ensure_packed(project, volume)

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        await self._branches.ensure_unpacked(project, volume)

    async def apply_change(self, spec: BranchSpec, change: CatalogChange) -> None:
        await self._branches.apply_change(spec, change)

    async def read_branch_contents(
        self, spec: BranchSpec, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents:
        return await self._branches.read_branch_contents(spec, query)

    async def measure_volume(self, volume: VolumeId) -> int | None:
        return await self._branches.measure_volume(volume)

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        return await self._computes.ensure_running(spec)

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        await self._computes.ensure_suspended(endpoint)

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        await self._computes.resize(endpoint, cu)

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        return await self._computes.find_address(endpoint)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        return await self._computes.is_busy(endpoint)

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        return await self._computes.read_load(endpoint)

    async def list_preloaded(self, endpoint: EndpointId) -> tuple[str, ...] | None:
        return await self._computes.list_preloaded(endpoint)

    async def collect_audit_logs(self) -> int:
        return await self._computes.collect_audit_logs()

    async def allow_failed_build(self, volume: VolumeId) -> None:
        await self._computes.allow_failed_build(volume)

    async def find_put_back(self, volume: VolumeId) -> PutBackBuild | None:
        return await self._builds.find_put_back(volume)

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        return await self._computes.read_replica_state(endpoint)

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        with translate_os_errors():
            await asyncio.to_thread(self._components.folders.check_storage)
            return await self._history.apply_retention(volume, since, take_bases=take_bases)

    async def ensure_history_started(self, project: ProjectId, volume: VolumeId) -> HistoryStatus:
        async with self._components.resource_locks.lock(volume):
            await self._components.running.check_no_compute(volume)
        with translate_os_errors():
            return await self._history.start_history(volume)

    async def retire_volume(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._components.resource_locks.lock(volume):
            await self._components.running.check_no_compute(volume)
            await self._components.replicas.drop_slot(volume)
            await self._history.retire(volume, project)

    def capabilities(self) -> Capabilities:
        parts = self._components
        return Capabilities(
            installs={major: install.pin for major, install in parts.install_catalog.select_preferred().items()},
            has_isolation=parts.sandbox.has_isolation,
            limits_summary=parts.cgroups.summary,
            storage_driver=parts.volumes.driver.name,
            build_warnings=self._builds.list_warnings(),
            vulnerable_builds=self._builds.explain_vulnerable(),
            creation_blocked_reason=free_space.explain_rejection(parts.folders, self._settings.free_space_floor),
        )

    async def follow_builds(self) -> str:
        return await self._builds.follow()

    async def list_builds(self) -> tuple[Build, ...]:
        return await self._builds.list_builds()

    async def list_restart_needs(self, project: ProjectId | None = None) -> tuple[RestartNeed, ...]:
        return await self._builds.list_restart_needs(project)

    async def list_put_back(self) -> tuple[PutBackBuild, ...]:
        return await self._builds.list_put_back()

    async def check_collations(self) -> None:
        await self._components.collation_checks.run()

    async def list_offered_extensions(self, pin: str, project: ProjectId | None = None) -> OfferedExtensions:
        return await self._builds.list_offered_extensions(pin, project)

    async def check_all_extensions(self) -> None:
        """Look at every running compute now; it also works without `prepare`."""
        await self._components.extension_checks.check_all()

    async def check_extensions(self) -> None:
        await self._components.extension_checks.run()

    async def list_indexes_to_rebuild(self) -> Mapping[VolumeId, tuple[IndexToRebuild, ...]]:
        return await asyncio.to_thread(self._components.collation_checks.list_indexes)

    async def observe(self) -> Observation:
        return await self._inspection.observe()

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        return await self._history.read_wal_end(volume)

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        return await self._inspection.measure_usage(endpoint)

    async def read_cpu_seconds(self) -> Mapping[EndpointId, float]:
        return await self._inspection.read_cpu_seconds()

    async def measure_storage(self, endpoint: EndpointId) -> StorageUsage | None:
        return await self._inspection.measure_storage(endpoint)

    async def sample_machine(self) -> MachineSample:
        return await self._sampling.sample_machine()

    async def sample_processes(self) -> Mapping[EndpointId, ProcessSample]:
        return await self._sampling.sample_processes()

    async def read_statistics(self, endpoint: EndpointId) -> ComputeStatistics | None:
        return await self._sampling.read_statistics(endpoint)

    async def retain_sessions(self, endpoints: Collection[EndpointId]) -> None:
        await self._sampling.retain_sessions(endpoints)

    async def read_compute_contents(
        self, endpoint: EndpointId, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents | None:
        return await self._inspection.read_contents(endpoint, query)

    async def read_statement_statistics(
        self, endpoint: EndpointId, query: StatisticsQuery
    ) -> StatementStatistics | None:
        return await self._statements.read_statement_statistics(endpoint, query)

    async def ensure_statistics_readable(self, endpoint: EndpointId) -> bool | None:
        return await self._statements.ensure_statistics_readable(endpoint)

    async def reset_statement_statistics(self, endpoint: EndpointId) -> bool | None:
        return await self._statements.reset_statement_statistics(endpoint)

    async def list_running_statements(self, endpoint: EndpointId) -> tuple[RunningStatement, ...] | None:
        return await self._statements.list_running_statements(endpoint)

    async def signal_statement(
        self, endpoint: EndpointId, handle: StatementHandle, *, terminate: bool = False
    ) -> SignalOutcome | None:
        return await self._statements.signal_statement(endpoint, handle, terminate=terminate)
