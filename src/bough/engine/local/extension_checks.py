"""Record which extensions the databases of running computes have: now and then, and before a compute is stopped."""

import asyncio
from contextlib import suppress

from bough import clock, log
from bough.engine.local.computes.extension_reading import read_extensions
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.session import MEASUREMENT_LIMITS, open_session
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.volumes.extension_record import ExtensionRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import EndpointId

_INTERVAL = 120.0  # seconds between checks of a compute
_AT_ONCE = 4  # computes checked in one run
_TIMEOUT = 10.0
_STOP_TIMEOUT = 2.0  # a compute that does not answer is stopped all the same

logger = log.get_logger(component="engine")


class ExtensionChecks:
    def __init__(self, running: RunningComputes, volumes: Volumes) -> None:
        self._running = running
        self._volumes = volumes
        self._due: dict[EndpointId, float] = {}
        self._ends: dict[EndpointId, tuple[int | None, int | None]] = {}  # pid and end of the WAL at the last check

    async def run(self) -> None:
        """Check the computes that are due, longest first."""
        runs = {run.endpoint_id: run for run in await self._running.list_runs() if _is_checked(run)}
        self._due = {endpoint: self._due.get(endpoint, 0.0) for endpoint in runs}
        self._ends = {endpoint: end for endpoint, end in self._ends.items() if endpoint in runs}
        now = clock.monotonic()
        due = sorted((at, endpoint) for endpoint, at in self._due.items() if at <= now)
        for _, endpoint in due[:_AT_ONCE]:
            await self._try_check(runs[endpoint], _TIMEOUT)
            self._due[endpoint] = clock.monotonic() + _INTERVAL

    async def check_all(self) -> None:
        """Check every running compute now."""
        for run in await self._running.list_runs():
            if _is_checked(run):
                await self._try_check(run, _TIMEOUT)

    async def check_before_stop(self, endpoint: EndpointId) -> None:
        run = await self._running.find_run(endpoint)
        if run is not None and _is_checked(run):
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT):
                    await self._try_check(run, _STOP_TIMEOUT / 2)

    async def _try_check(self, run: ComputeRun, timeout: float) -> None:
        try:
            await self._check(run, timeout)
        except (EngineError, OSError) as error:
            logger.info("extensions_not_checked", endpoint_id=run.endpoint_id, reason=str(error))

    async def _check(self, run: ComputeRun, timeout: float) -> None:
        sockets = await self._running.find_sockets(run.endpoint_id)
        folder = self._volumes.folder(run.volume_id)
        record = await asyncio.to_thread(folder.read_record)
        if sockets is None or record is None or record.is_replica:
            return
        async with open_session(sockets, limits=MEASUREMENT_LIMITS) as session:
            status = await session.read_server_status()
        end = (run.pid, status.wal)
        before = await asyncio.to_thread(ExtensionRecord.read, folder.path)
        if (
            before is not None
            and before.is_complete
            and status.wal is not None
            and self._ends.get(run.endpoint_id) == end
        ):
            return
        found = (await read_extensions(sockets, record.major, timeout=timeout)).with_earlier(before)
        if found != before:
            await asyncio.to_thread(found.write, folder.path)
        self._ends[run.endpoint_id] = end


def _is_checked(run: ComputeRun) -> bool:
    return not (is_spare(run.endpoint_id) or is_temporary(run.endpoint_id))
