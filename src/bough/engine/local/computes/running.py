"""The running computes: which exist, where they listen, and how they are stopped.

The files of `runs` record what was started; the system is asked what is still alive. Everything in memory is derived
from these two, so that a new control process finds every compute that the previous one left.
"""

import asyncio
from pathlib import Path

from bough import clock
from bough.engine.local.computes import postmaster, process
from bough.engine.local.computes.compute_lookup import ComputeLookup
from bough.engine.local.computes.pid_file import PidFile
from bough.engine.local.computes.process_usage import ProcessUsage
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns, is_temporary, temporary_name
from bough.engine.local.computes.spare_assignment import SpareAssignment, is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, ProcessSample
from bough.ids import EndpointId, VolumeId

SETTLE_TIMEOUT = 10.0
_POLL_INTERVAL = 0.02  # seconds, while a compute starts or stops


class RunningComputes:
    def __init__(
        self,
        folders: Folders,
        volumes: Volumes,
        socket_users: SocketUsers,
        cgroups: Cgroups,
        *,
        runs: ComputeRuns,
        spare_assignment: SpareAssignment,
    ) -> None:
        self._folders = folders
        self._volumes = volumes
        self._cgroups = cgroups
        self._runs = runs
        self._spare_assignment = spare_assignment
        self._lookup = ComputeLookup(folders, volumes, socket_users, runs)

    async def adopt(self) -> None:
        """Clean up after computes that have ended. Running ones need nothing but their run file.

        Temporary computes are stopped, because the process that started them has ended.
        """
        await self.stop_temporary()
        await run_shielded(self._clean_up_dead)
        await run_shielded(self._cap_cpu)

    async def list_endpoints(self) -> frozenset[EndpointId]:
        """Return the endpoints with a live compute, including spares."""
        return frozenset(run.endpoint_id for run in await self.list_runs())

    async def list_runs(self) -> list[ComputeRun]:
        """Return the runs of live computes, including spares."""
        return [run for run, _ in (await asyncio.to_thread(self._lookup.find_alive)).values()]

    async def read_cpu_seconds(self) -> dict[EndpointId, float]:
        """Return the CPU time of each live compute since it started."""
        return await asyncio.to_thread(self._lookup.read_cpu_seconds)

    async def sample_processes(self) -> dict[EndpointId, ProcessSample]:
        """Sample each live compute, including spares."""
        return await asyncio.to_thread(self._lookup.sample_processes, self._cgroups.read_unreclaimable_bytes)

    async def has_compute(self, volume: VolumeId) -> bool:
        """Return whether any compute runs on the volume, including temporary and spare ones."""
        return await asyncio.to_thread(self._lookup.has_compute, volume)

    async def check_no_compute(self, volume: VolumeId) -> None:
        """Check that no endpoint's compute runs on the volume, after stopping temporary ones."""
        await self.stop_unassigned(volume)
        if await self.has_compute(volume):
            raise EngineError("A compute still runs on the branch; suspend it first.")

    async def find_run(self, endpoint: EndpointId) -> ComputeRun | None:
        """Return the run of the endpoint's compute, which may have ended."""
        return await asyncio.to_thread(self._runs.get, endpoint)

    async def find_sockets(self, endpoint: EndpointId) -> Path | None:
        """Return the socket folder of the endpoint's compute, or None when it does not accept connections."""
        return await asyncio.to_thread(self._lookup.find_sockets, endpoint)

    async def find_volume_sockets(self, volume: VolumeId) -> Path | None:
        """Return the socket folder of the compute that serves a volume."""
        return await asyncio.to_thread(self._lookup.find_volume_sockets, volume)

    async def await_volume_sockets(self, volume: VolumeId) -> Path | None:
        """Return the socket folder of the compute that serves the volume, or None when none runs on it.

        Wait for a compute that is starting or stopping. The caller holds the volume's lock, so a temporary compute on
        the volume is a leftover of a failed operation.
        """
        await self.stop(temporary_name(volume))
        deadline = clock.monotonic() + SETTLE_TIMEOUT
        while await asyncio.to_thread(self._lookup.has_compute, volume):
            if (sockets := await self.find_volume_sockets(volume)) is not None:
                return sockets
            if clock.monotonic() >= deadline:
                raise EngineError("The branch's compute is starting or stopping: try again.")
            await asyncio.sleep(_POLL_INTERVAL)
        return None

    async def measure_processes(self, endpoint: EndpointId) -> ProcessUsage | None:
        """Measure its processes. Return None when it does not run."""
        return await asyncio.to_thread(self._lookup.measure_processes, endpoint)

    async def stop(self, endpoint: EndpointId, *, immediate: bool = False) -> None:
        run = await self.find_run(endpoint)
        if run is None:
            return
        server = await asyncio.to_thread(self._lookup.find, run)
        if server is not None:
            with server:
                await process.stop(server, immediate=immediate)
        await run_shielded(lambda: self.clean_up(run))

    async def stop_temporary(self) -> None:
        """Stop every temporary compute. A control process that is killed leaves them."""
        for run in await asyncio.to_thread(self._runs.list_all):
            if is_temporary(run.endpoint_id):
                await self.stop(run.endpoint_id)
                await self.delete_log(run.endpoint_id)

    async def stop_unassigned(self, volume: VolumeId) -> None:
        """Stop or clean up a compute on the volume that belongs to no endpoint, with or without a run.

        It is a temporary compute, or a spare whose branch never got its endpoint.
        """
        await self.stop(temporary_name(volume))
        data = self._volumes.folder(volume).data
        server = await asyncio.to_thread(postmaster.find, data)
        file = PidFile.read(data)
        if server is not None and file is not None:
            with server:
                name = Path(file.socket_folder).name
                is_assigned = (self._folders.sockets / name).is_symlink()
                if is_temporary(name) or (is_spare(name) and not is_assigned):
                    await process.stop(server)
                    await self.clean_up_if_dead(EndpointId(name))
        await run_shielded(lambda: self._clean_up_dead_spares(volume))
        await run_shielded(lambda: self._clean_up_temporary(temporary_name(volume)))

    async def stop_unrecorded(self, volume: VolumeId) -> None:
        """Stop a compute on the volume that has no run, which a crash may leave behind."""
        server = await asyncio.to_thread(postmaster.find, self._volumes.folder(volume).data)
        if server is not None:
            with server:
                await process.stop(server)

    async def clean_up_if_dead(self, endpoint: EndpointId) -> None:
        await run_shielded(lambda: self._clean_up_when_dead(endpoint))

    async def delete_log(self, endpoint: EndpointId) -> None:
        await asyncio.to_thread(self._folders.log_file(endpoint).unlink, missing_ok=True)

    def clean_up(self, run: ComputeRun) -> None:
        """Remove the control group, the sockets and the run of a compute that has ended."""
        self._cgroups.remove(run.cgroup_name)
        self._spare_assignment.remove_runtime_files(run)
        self._runs.remove(run.endpoint_id)

    def _clean_up_dead(self) -> None:
        self._runs.remove_corrupt()
        for run in self._runs.list_all():
            self._clean_up_when_dead(run.endpoint_id)
        self._spare_assignment.remove_stale_links()
        self._cgroups.remove_empty({run.cgroup_name for run in self._runs.list_all()})

    def _cap_cpu(self) -> None:
        """Cap the computes that an earlier version, or one with another setting, started."""
        for run in self._runs.list_all():
            if run.max_cu is not None and not is_spare(run.endpoint_id):
                self._cgroups.cap_cpu(run.cgroup_name, run.max_cu)

    def _clean_up_temporary(self, name: EndpointId) -> None:
        """Clean up even if the run was lost."""
        if self._runs.get(name) is None:
            self._cgroups.remove(name)
            self._spare_assignment.remove_sockets(name)

    def _clean_up_dead_spares(self, volume: VolumeId) -> None:
        for run in self._runs.list_on_volume(volume):
            if is_spare(run.endpoint_id):
                self._clean_up_when_dead(run.endpoint_id)

    def _clean_up_when_dead(self, endpoint: EndpointId) -> None:
        run = self._runs.get(endpoint)
        if run is not None and not self._lookup.is_alive(run):
            self.clean_up(run)
