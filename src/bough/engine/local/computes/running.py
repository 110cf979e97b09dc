"""The computes that live: which they are, where they listen, and how they end.

What was started stands in the files of `runs`, what lives is asked of the system. What is kept in memory of both is
rebuilt from them, so a new control process finds every compute as the one before it left them.
"""

import asyncio
from pathlib import Path

from bough import clock
from bough.engine.local.computes import postmaster, process
from bough.engine.local.computes.postmaster import READY, PidFile, Postmaster
from bough.engine.local.computes.postmaster_watcher import PostmasterWatcher
from bough.engine.local.computes.process_usage import ProcessUsage, measure_processes, read_cpu_seconds
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns, is_temporary, temporary_name
from bough.engine.local.computes.spare_assignment import SpareAssignment, is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import EndpointId, VolumeId

SETTLE_TIMEOUT = 10.0
_LOOK = 0.02  # seconds between looks at a compute that is starting or stopping


class RunningComputes:
    def __init__(self, folders: Folders, volumes: Volumes, socket_users: SocketUsers, cgroups: Cgroups) -> None:
        self._folders = folders
        self._volumes = volumes
        self._socket_users = socket_users
        self._cgroups = cgroups
        self.runs = ComputeRuns(folders.runs)
        self.spare_assignment = SpareAssignment(folders, volumes, self.runs)
        self._watcher = PostmasterWatcher(self._find)

    async def adopt(self) -> None:
        """Forget computes that are gone; those that live need nothing more than their file.

        Private ones are stopped before anybody could meet them: whoever they were started for is gone.
        """
        await self.stop_temporary()
        await run_shielded(self._clean_up_dead)

    async def list_endpoints(self) -> frozenset[EndpointId]:
        """Endpoints whose compute lives, and spares."""
        return frozenset(run.endpoint_id for run in await self.list_runs())

    async def list_runs(self) -> list[ComputeRun]:
        """Their runs."""
        return [run for run, _ in (await asyncio.to_thread(self._alive_now)).values()]

    async def read_cpu_seconds(self) -> dict[EndpointId, float]:
        """What each that lives took of the processors since it was started."""
        return await asyncio.to_thread(self._cpu_seconds_now)

    async def has_compute(self, volume: VolumeId) -> bool:
        """Whether any compute lives on the volume, whoever started it."""
        return await asyncio.to_thread(self._is_served, volume)

    async def find_sockets(self, endpoint: EndpointId) -> Path | None:
        """Where the endpoint's compute accepts connections; None when it does not."""
        return await asyncio.to_thread(self._sockets_when_ready, endpoint)

    async def find_volume_sockets(self, volume: VolumeId) -> Path | None:
        """The same, for the compute that serves a volume."""
        return await asyncio.to_thread(self._sockets_of_now, volume)

    async def await_volume_sockets(self, volume: VolumeId) -> Path | None:
        """Where the compute that serves the volume accepts connections; None when none lives on it.

        One that is just starting or stopping is waited for. Whoever asks holds the volume's lock, so that a
        private compute on it was left by somebody who failed.
        """
        await self.stop(temporary_name(volume))
        until = clock.monotonic() + SETTLE_TIMEOUT
        while await asyncio.to_thread(self._is_served, volume):
            if (sockets := await self.find_volume_sockets(volume)) is not None:
                return sockets
            if clock.monotonic() >= until:
                raise EngineError("The branch's compute is starting or stopping.")
            await asyncio.sleep(_LOOK)
        return None

    async def measure_processes(self, endpoint: EndpointId) -> ProcessUsage | None:
        """How its processes are; None when it does not run."""
        return await asyncio.to_thread(self._vitals_now, endpoint)

    async def stop(self, endpoint: EndpointId, *, immediate: bool = False) -> None:
        run = await asyncio.to_thread(self.runs.get, endpoint)
        if run is None:
            return
        live = await asyncio.to_thread(self._find, run)
        if live is not None:
            with live:
                await process.stop(live, immediate=immediate)
        await run_shielded(lambda: self.clean_up(run))

    async def stop_temporary(self) -> None:
        """Every private compute, as a control that was killed may leave them."""
        for run in await asyncio.to_thread(self.runs.list_all):
            if is_temporary(run.endpoint_id):
                await self.stop(run.endpoint_id)
                await self.delete_log(run.endpoint_id)

    async def stop_unassigned(self, volume: VolumeId) -> None:
        """A compute on the volume that is no endpoint's; known by a run or not, or dead.

        It is private, or from the warm pool and its endpoint never came.
        """
        await self.stop(temporary_name(volume))
        data = self._volumes.folder(volume).data
        live = await asyncio.to_thread(postmaster.find, data)
        file = PidFile.read(data)
        if live is not None and file is not None:
            with live:
                name = Path(file.socket_folder).name
                is_handed_over = (self._folders.sockets / name).is_symlink()  # it is an endpoint's
                if is_temporary(name) or (is_spare(name) and not is_handed_over):
                    await process.stop(live)
                    await self.clean_up_if_dead(EndpointId(name))
        await run_shielded(lambda: self._clean_up_dead_spares(volume))
        await run_shielded(lambda: self._clean_up_temporary(temporary_name(volume)))

    async def stop_unrecorded(self, volume: VolumeId) -> None:
        """Whatever lives on the volume without a run, as a crash between two files may leave it."""
        live = await asyncio.to_thread(postmaster.find, self._volumes.folder(volume).data)
        if live is not None:
            with live:
                await process.stop(live)

    async def clean_up_if_dead(self, endpoint: EndpointId) -> None:
        await run_shielded(lambda: self._clean_up_when_dead(endpoint))

    async def delete_log(self, endpoint: EndpointId) -> None:
        await asyncio.to_thread(self._folders.log_file(endpoint).unlink, missing_ok=True)

    def clean_up(self, run: ComputeRun) -> None:
        """What a compute that ended left: its group, its sockets, its run."""
        self._cgroups.remove(run.cgroup_name)
        self.spare_assignment.remove_runtime_files(run)
        self.runs.remove(run.endpoint_id)

    def _clean_up_dead(self) -> None:
        self.runs.remove_corrupt()
        for run in self.runs.list_all():
            self._clean_up_when_dead(run.endpoint_id)
        self.spare_assignment.remove_stale_links()
        self._cgroups.remove_empty({run.cgroup_name for run in self.runs.list_all()})

    def _clean_up_temporary(self, name: EndpointId) -> None:
        """What one left whose run was lost, too."""
        if self.runs.get(name) is None:
            self._cgroups.remove(name)
            self.spare_assignment.remove_sockets(name)

    def _clean_up_dead_spares(self, volume: VolumeId) -> None:
        for run in self.runs.list_on_volume(volume):
            if is_spare(run.endpoint_id):
                self._clean_up_when_dead(run.endpoint_id)

    def _clean_up_when_dead(self, endpoint: EndpointId) -> None:
        run = self.runs.get(endpoint)
        if run is not None and not self._is_alive(run):
            self.clean_up(run)

    def _sockets_when_ready(self, endpoint: EndpointId) -> Path | None:
        run = self.runs.get(endpoint)
        if run is None:
            return None
        file = PidFile.read(self._data(run))
        if file is None or file.status != READY or not postmaster.is_postmaster(file.pid, self._data(run)):
            return None
        folder = self._folders.socket_folder(endpoint)
        return folder if process.seal_socket_folder(folder, self._socket_users.gateway_gid) else None

    def _sockets_of_now(self, volume: VolumeId) -> Path | None:
        runs = self.runs.list_on_volume(volume)
        endpoints = [run.endpoint_id for run in runs if not is_temporary(run.endpoint_id)]
        return next(filter(None, map(self._sockets_when_ready, endpoints)), None)

    def _is_served(self, volume: VolumeId) -> bool:
        """Whether any compute lives on the volume; one that was launched may not have said so yet."""
        alive = postmaster.is_alive(self._volumes.folder(volume).data)
        return alive or any(map(self._is_alive, self.runs.list_on_volume(volume)))

    def _alive_now(self) -> dict[EndpointId, tuple[ComputeRun, int]]:
        return self._watcher.find_alive(run for run in self.runs.list_all() if not is_temporary(run.endpoint_id))

    def _cpu_seconds_now(self) -> dict[EndpointId, float]:
        pids = {endpoint: pid for endpoint, (_, pid) in self._alive_now().items()}
        taken = read_cpu_seconds(set(pids.values()))
        return {endpoint: taken[pid] for endpoint, pid in pids.items() if pid in taken}

    def _vitals_now(self, endpoint: EndpointId) -> ProcessUsage | None:
        run = self.runs.get(endpoint)
        live = self._find(run) if run else None
        if live is None:
            return None
        with live:
            return measure_processes(live.pid)

    def _find(self, run: ComputeRun) -> Postmaster | None:
        return postmaster.find(self._data(run), self._launched(run))

    def _is_alive(self, run: ComputeRun) -> bool:
        return postmaster.is_alive(self._data(run), self._launched(run))

    def _launched(self, run: ComputeRun) -> int | None:
        """Control may have been killed before it could note the pid."""
        return run.pid or postmaster.find_starting(self._data(run))

    def _data(self, run: ComputeRun) -> Path:
        return self._volumes.folder(run.volume_id).data
