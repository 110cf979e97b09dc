"""Inspects running computes and the machine without changing anything."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bough import clock, log
from bough.engine.local import free_space
from bough.engine.local.computes import session, statement_queries
from bough.engine.local.computes.compute_sizes import ComputeSizes
from bough.engine.local.computes.replication_status import ReplicationMonitor
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.footprint import measure_footprint
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import BranchContents, ComputeUsage, ContentsQuery, EngineError, Observation, StorageUsage
from bough.ids import EndpointId
from bough.postgres import statement_statistics, storage

_STORAGE_TIMEOUT_SECONDS = 5.0
_BACKOFF_SECONDS = 60.0  # an unresponsive compute delays the measurement of all others
_EMPTY_BYTES = 32 * 1024**2  # roughly the size of an empty data directory

logger = log.get_logger(component="engine")


class LocalInspection:
    """For a compute that is not running, the methods return None or False."""

    def __init__(
        self,
        running: RunningComputes,
        replication_monitor: ReplicationMonitor,
        sizes: ComputeSizes,
        folders: Folders,
        volumes: Volumes,
        *,
        floor: int,
    ) -> None:
        self._running = running
        self._replication_monitor = replication_monitor
        self._sizes = sizes
        self._folders = folders
        self._volumes = volumes
        self._floor = floor
        self._unresponsive: dict[EndpointId, float] = {}  # until when storage is measured by files

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        async with session.open_session(sockets, limits=session.MEASUREMENT_LIMITS) as connection:
            logical_bytes, status = await connection.read_logical_bytes(), await connection.read_server_status()
        # After the session: if the compute restarts in between, the CPU seconds are those of the new run, which are
        # fewer. In the other order, those of the old run would be counted again for the new one.
        process_usage = await self._running.measure_processes(endpoint)
        if process_usage is None:
            return None
        lag = await self._replication_monitor.measure_lag(endpoint)
        return ComputeUsage(
            logical_bytes=logical_bytes,
            memory_bytes=process_usage.memory_bytes,
            cpu_seconds=process_usage.cpu_seconds,
            wal_position=status.wal,
            started_at=status.started_at,
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
                asyncio.timeout(_STORAGE_TIMEOUT_SECONDS),
                session.open_session(sockets, limits=session.MEASUREMENT_LIMITS) as connection,
            ):
                measured = await connection.measure_storage()
        except (EngineError, TimeoutError) as error:  # for example because a tenant locked a catalog
            logger.warning("storage_query_failed", endpoint_id=endpoint, reason=str(error))
            self._back_off(endpoint)
            return await self._measure_files(endpoint)
        with suppress(EngineError):
            if measured.is_public:  # a version that granted access to tenants created its template
                async with session.open_session(sockets) as connection:
                    await connection.execute(*storage.REVOKE_PUBLIC)
            if measured.statement_text_bytes > statement_statistics.MAX_TEXT_FILE_BYTES:
                async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection:
                    await statement_queries.reset_statistics(connection)
        return measured.usage

    def _back_off(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._unresponsive = {endpoint_id: until for endpoint_id, until in self._unresponsive.items() if until > now}
        self._unresponsive[endpoint] = now + _BACKOFF_SECONDS

    async def _measure_files(self, endpoint: EndpointId) -> StorageUsage | None:
        """Measure the files of a compute that does not answer."""
        run = await self._running.find_run(endpoint)
        if run is None:
            return None
        footprint = await asyncio.to_thread(measure_footprint, self._volumes.folder(run.volume_id).data)
        return StorageUsage(used_bytes=max(0, footprint - _EMPTY_BYTES), temp_file_limit_bytes=None)

    async def read_contents(self, endpoint: EndpointId, query: ContentsQuery) -> BranchContents | None:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection:
            return await connection.read_contents(query)

    async def read_contents_at(self, sockets: Path, query: ContentsQuery) -> BranchContents:
        """Read the contents of the compute with these sockets, without a short timeout: a caller waits for it."""
        async with session.open_session(sockets) as connection:
            return await connection.read_contents(query)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return False
        async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection:
            return await connection.is_busy()

    async def observe(self) -> Observation:
        await asyncio.to_thread(self._folders.check_storage)
        runs, volumes = await self._running.list_runs(), await self._volumes.list_volumes()
        running = frozenset(run.endpoint_id for run in runs)
        spare = frozenset(filter(is_spare, running))
        free, total = await asyncio.to_thread(free_space.measure_space, self._folders, self._floor)
        return Observation(
            running_endpoints=running - spare,
            spare_endpoints=spare,
            volumes=frozenset(each for each in volumes if not is_spare(each)),
            free_bytes=free,
            total_bytes=total,
            cu_by_endpoint={run.endpoint_id: run.cu for run in runs if run.cu is not None},
        )
