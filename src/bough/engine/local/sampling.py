"""Samples running computes and the machine. Implements SamplingEngine."""

import asyncio
import os
from collections.abc import Collection, Mapping

from bough.engine.local import free_space, machine_usage
from bough.engine.local.computes.kept_sessions import KeptSession, KeptSessions
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.folders import Folders
from bough.engine.port import ComputeStatistics, MachineSample, ProcessSample
from bough.ids import EndpointId


class LocalSampling:
    def __init__(self, running: RunningComputes, sessions: KeptSessions, folders: Folders, *, floor: int) -> None:
        self._running = running
        self._sessions = sessions
        self._folders = folders
        self._floor = floor

    async def sample_machine(self) -> MachineSample:
        return await asyncio.to_thread(self._sample_machine)

    async def sample_processes(self) -> Mapping[EndpointId, ProcessSample]:
        return await self._running.sample_processes()

    async def read_statistics(self, endpoint: EndpointId) -> ComputeStatistics | None:
        session = self._sessions.take(endpoint) or await self._open(endpoint)
        if session is None:
            return None
        try:
            statistics = await session.read_statistics()
        except BaseException:
            session.terminate()
            raise
        await self._sessions.keep(endpoint, session)
        return statistics

    async def retain_sessions(self, endpoints: Collection[EndpointId]) -> None:
        await self._sessions.retain(endpoints)

    async def _open(self, endpoint: EndpointId) -> KeptSession | None:
        run = await self._running.find_run(endpoint)
        sockets = await self._running.find_sockets(endpoint) if run else None
        return None if run is None or sockets is None else await KeptSession.open(run.volume_id, sockets)

    def _sample_machine(self) -> MachineSample:
        free, total = free_space.measure_space(self._folders, self._floor)
        memory_used, memory_total = machine_usage.read_memory()
        return MachineSample(
            cpu_seconds=machine_usage.read_cpu_seconds(),
            cpu_cores=os.cpu_count() or 1,
            load_average=os.getloadavg()[0],
            memory_used_bytes=memory_used,
            memory_total_bytes=memory_total,
            disk_used_bytes=max(0, total - free),
            disk_total_bytes=total,
        )
