"""What can be seen of computes that run, and of the machine, without changing anything."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bough import clock, log
from bough.engine.local import free_space
from bough.engine.local.computes import session
from bough.engine.local.computes.compute_sizes import ComputeSizes
from bough.engine.local.computes.replication_status import ReplicationMonitor
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.footprint import measure_footprint
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import BranchContents, ComputeUsage, ContentsQuery, EngineError, Observation, StorageUsage
from bough.ids import EndpointId
from bough.postgres import storage

_MEASURING_SECONDS = 5.0
_SILENT_SECONDS = 60.0  # one that did not answer would hold up the others again
_EMPTY_BYTES = 32 * 1024**2  # what an empty Postgres has on disk, roughly

logger = log.get_logger(component="engine")


class LocalInspection:
    """Of a compute that does not run there is nothing to see: None, or not busy."""

    def __init__(
        self,
        running: RunningComputes,
        replication_monitor: ReplicationMonitor,
        sizes: ComputeSizes,
        folders: Folders,
        volumes: Volumes,
    ) -> None:
        self._running = running
        self._replication_monitor = replication_monitor
        self._sizes = sizes
        self._folders = folders
        self._volumes = volumes
        self._unresponsive: dict[EndpointId, float] = {}  # until when they are not asked what they store

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        async with session.open_session(sockets, limits=session.MEASUREMENT_LIMITS) as ours:
            logical_bytes, position = await ours.read_logical_bytes(), await ours.read_position()
        # In this order: when it is restarted in between, what the new run took is less than what is known of the old.
        # The other way round all that the old one took would count again, as the new one's.
        vitals = await self._running.measure_processes(endpoint)
        if vitals is None:
            return None
        lag = await self._replication_monitor.measure_lag(endpoint)
        return ComputeUsage(
            logical_bytes=logical_bytes,
            memory_bytes=vitals.memory_bytes,
            cpu_seconds=vitals.cpu_seconds,
            wal_position=position.wal,
            started_at=position.started_at,
            replica_lag_bytes=lag.bytes,
            replica_lag_seconds=lag.seconds,
            cu=await asyncio.to_thread(self._sizes.read_size, endpoint),
        )

    async def read_cpu_seconds(self) -> Mapping[EndpointId, float]:
        return await self._running.read_cpu_seconds()

    async def measure_storage(self, endpoint: EndpointId) -> StorageUsage | None:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        if self._unresponsive.get(endpoint, 0.0) > clock.monotonic():
            return await self._measure_files(endpoint)
        try:
            async with (
                asyncio.timeout(_MEASURING_SECONDS),
                session.open_session(sockets, limits=session.MEASUREMENT_LIMITS) as ours,
            ):
                stored, is_open = await ours.measure_storage()
        except (EngineError, TimeoutError) as error:  # as when a tenant locks a catalog
            logger.warning("storage_not_asked", endpoint_id=endpoint, reason=str(error))
            self._back_off(endpoint)
            return await self._measure_files(endpoint)
        if is_open:  # its template was made by a version that let tenants in
            with suppress(EngineError):
                async with session.open_session(sockets) as ours:
                    await ours.execute(*storage.REVOKE_PUBLIC)
        return stored

    def _back_off(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._unresponsive = {each: until for each, until in self._unresponsive.items() if until > now}
        self._unresponsive[endpoint] = now + _SILENT_SECONDS

    async def _measure_files(self, endpoint: EndpointId) -> StorageUsage | None:
        """By its files, when its server does not answer."""
        run = await asyncio.to_thread(self._running.runs.get, endpoint)
        if run is None:
            return None
        found = await asyncio.to_thread(measure_footprint, self._volumes.folder(run.volume_id).data)
        return StorageUsage(used_bytes=max(0, found - _EMPTY_BYTES), temp_file_limit_bytes=None)

    async def read_contents(self, endpoint: EndpointId, query: ContentsQuery) -> BranchContents | None:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours:
            return await ours.read_contents(query)

    async def read_contents_at(self, sockets: Path, query: ContentsQuery) -> BranchContents:
        """The same of the compute that listens there. Somebody waits for it, so it is waited for."""
        async with session.open_session(sockets) as ours:
            return await ours.read_contents(query)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return False
        async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours:
            return await ours.is_busy()

    async def observe(self) -> Observation:
        await asyncio.to_thread(self._folders.check_storage)
        runs, volumes = await self._running.list_runs(), await self._volumes.list_volumes()
        running = frozenset(run.endpoint_id for run in runs)
        spare = frozenset(filter(is_spare, running))
        free, total = await asyncio.to_thread(free_space.measure_space, self._folders)
        return Observation(
            running_endpoints=running - spare,
            spare_endpoints=spare,
            volumes=frozenset(each for each in volumes if not is_spare(each)),
            free_bytes=free,
            total_bytes=total,
            cu_by_endpoint={run.endpoint_id: run.cu for run in runs if run.cu is not None},
        )
