"""What can be seen of computes that run, and of the machine, without changing anything."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bough import clock, log
from bough.engine.local import space
from bough.engine.local.computes import session
from bough.engine.local.computes.handover import is_spare
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.sizing import Sizes
from bough.engine.local.computes.standings import Standings
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.footprint import footprint
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Contents, EngineError, Listing, Observation, Storage, Usage
from bough.ids import EndpointId
from bough.postgres import storage

_MEASURING_SECONDS = 5.0
_SILENT_SECONDS = 60.0  # one that did not answer would hold up the others again
_EMPTY_BYTES = 32 * 1024**2  # what an empty Postgres has on disk, roughly

logger = log.get(room="engine")


class Looking:
    """Of a compute that does not run there is nothing to see: None, or not busy."""

    def __init__(self, living: Living, standings: Standings, sizes: Sizes, folders: Folders, volumes: Volumes) -> None:
        self._living = living
        self._standings = standings
        self._sizes = sizes
        self._folders = folders
        self._volumes = volumes
        self._silent: dict[EndpointId, float] = {}  # until when they are not asked what they store

    async def usage(self, endpoint: EndpointId) -> Usage | None:
        sockets = await self._living.sockets(endpoint)
        if sockets is None:
            return None
        async with session.opened(sockets, limits=session.MEASURE) as ours:
            logical_bytes, position = await ours.logical_bytes(), await ours.position()
        # In this order: when it is restarted in between, what the new run took is less than what is known of the old.
        # The other way round all that the old one took would count again, as the new one's.
        vitals = await self._living.vitals(endpoint)
        if vitals is None:
            return None
        lag = await self._standings.lag(endpoint)
        return Usage(
            logical_bytes=logical_bytes,
            memory_bytes=vitals.memory_bytes,
            cpu_seconds=vitals.cpu_seconds,
            wal_position=position.wal,
            started_at=position.started_at,
            replica_lag_bytes=lag.bytes,
            replica_lag_seconds=lag.seconds,
            cu=await asyncio.to_thread(self._sizes.size, endpoint),
        )

    async def cpu_seconds(self) -> Mapping[EndpointId, float]:
        return await self._living.cpu_seconds()

    async def stored(self, endpoint: EndpointId) -> Storage | None:
        sockets = await self._living.sockets(endpoint)
        if sockets is None:
            return None
        if self._silent.get(endpoint, 0.0) > clock.monotonic():
            return await self._counted(endpoint)
        try:
            async with asyncio.timeout(_MEASURING_SECONDS), session.opened(sockets, limits=session.MEASURE) as ours:
                stored, is_open = await ours.storage()
        except (EngineError, TimeoutError) as error:  # as when a tenant locks a catalog
            logger.warning("storage_not_asked", endpoint_id=endpoint, reason=str(error))
            self._note_silent(endpoint)
            return await self._counted(endpoint)
        if is_open:  # its template was made by a version that let tenants in
            with suppress(EngineError):
                async with session.opened(sockets) as ours:
                    await ours.run(*storage.CLOSE)
        return stored

    def _note_silent(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._silent = {each: until for each, until in self._silent.items() if until > now}
        self._silent[endpoint] = now + _SILENT_SECONDS

    async def _counted(self, endpoint: EndpointId) -> Storage | None:
        """By its files, when its server does not answer."""
        run = await asyncio.to_thread(self._living.runs.get, endpoint)
        if run is None:
            return None
        found = await asyncio.to_thread(footprint, self._volumes.folder(run.volume_id).data)
        return Storage(bytes=max(0, found - _EMPTY_BYTES), temp_file_bytes=None)

    async def contents(self, endpoint: EndpointId, listing: Listing) -> Contents | None:
        sockets = await self._living.sockets(endpoint)
        if sockets is None:
            return None
        async with session.opened(sockets, limits=session.LOOK) as ours:
            return await ours.contents(listing)

    async def into(self, sockets: Path, listing: Listing) -> Contents:
        """The same of the compute that listens there. Somebody waits for it, so it is waited for."""
        async with session.opened(sockets) as ours:
            return await ours.contents(listing)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        sockets = await self._living.sockets(endpoint)
        if sockets is None:
            return False
        async with session.opened(sockets, limits=session.LOOK) as ours:
            return await ours.is_busy()

    async def observe(self) -> Observation:
        await asyncio.to_thread(self._folders.check_storage)
        runs, volumes = await self._living.alive(), await self._volumes.present()
        running = frozenset(run.endpoint_id for run in runs)
        spare = frozenset(filter(is_spare, running))
        free, total = await asyncio.to_thread(space.room, self._folders)
        return Observation(
            running=running - spare,
            spare=spare,
            volumes=frozenset(each for each in volumes if not is_spare(each)),
            free_bytes=free,
            total_bytes=total,
            sizes={run.endpoint_id: run.cu for run in runs if run.cu is not None},
        )
