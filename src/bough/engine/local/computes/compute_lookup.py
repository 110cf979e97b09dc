"""Finds the recorded computes that are alive, and where they listen. The methods block: call them in a thread."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bough.engine.local.computes import postmaster, process
from bough.engine.local.computes.memory_readings import MemoryReadings
from bough.engine.local.computes.pid_file import READY, PidFile
from bough.engine.local.computes.postmaster_process import Postmaster
from bough.engine.local.computes.postmaster_watcher import PostmasterWatcher
from bough.engine.local.computes.process_usage import (
    ProcessUsage,
    measure_processes,
    read_cpu_seconds,
    read_start_ticks,
)
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns, is_temporary
from bough.engine.local.folders import Folders
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import ProcessSample
from bough.ids import EndpointId, VolumeId


class ComputeLookup:
    def __init__(self, folders: Folders, volumes: Volumes, socket_users: SocketUsers, runs: ComputeRuns) -> None:
        self._folders = folders
        self._volumes = volumes
        self._socket_users = socket_users
        self._runs = runs
        self._watcher = PostmasterWatcher(self.find)
        self._memory_readings = MemoryReadings()

    def find_sockets(self, endpoint: EndpointId) -> Path | None:
        run = self._runs.get(endpoint)
        if run is None:
            return None
        file = PidFile.read(self._data(run))
        if file is None or file.status != READY or not postmaster.is_postmaster(file.pid, self._data(run)):
            return None
        folder = self._folders.socket_folder(endpoint)
        return folder if process.seal_socket_folder(folder, self._socket_users.gateway_gid) else None

    def find_volume_sockets(self, volume: VolumeId) -> Path | None:
        runs = self._runs.list_on_volume(volume)
        endpoints = [run.endpoint_id for run in runs if not is_temporary(run.endpoint_id)]
        return next(filter(None, map(self.find_sockets, endpoints)), None)

    def has_compute(self, volume: VolumeId) -> bool:
        """Include a compute that was launched and has not written its pid file yet."""
        is_alive = postmaster.is_alive(self._volumes.folder(volume).data)
        return is_alive or any(map(self.is_alive, self._runs.list_on_volume(volume)))

    def find_alive(self) -> dict[EndpointId, tuple[ComputeRun, int]]:
        return self._watcher.find_alive(run for run in self._runs.list_all() if not is_temporary(run.endpoint_id))

    def read_cpu_seconds(self) -> dict[EndpointId, float]:
        pids = {endpoint: pid for endpoint, (_, pid) in self.find_alive().items()}
        seconds = read_cpu_seconds(set(pids.values()))
        return {endpoint: seconds[pid] for endpoint, pid in pids.items() if pid in seconds}

    def sample_processes(self, read_memory: Callable[[str], int | None]) -> dict[EndpointId, ProcessSample]:
        """`read_memory` returns the memory of a control group, if it is known."""
        alive = self.find_alive()
        seconds = read_cpu_seconds({pid for _, pid in alive.values()})
        samples: dict[EndpointId, ProcessSample] = {}
        for endpoint, (run, pid) in alive.items():
            if (used := seconds.get(pid)) is not None:
                name, read = f"{pid}/{read_start_ticks(pid)}", partial(_read_memory, run, pid, read_memory)
                memory = self._memory_readings.get(endpoint, name, used, read)
                samples[endpoint] = ProcessSample(run=name, cpu_seconds=used, memory_bytes=memory)
        self._memory_readings.retain(samples.keys())
        return samples

    def measure_processes(self, endpoint: EndpointId) -> ProcessUsage | None:
        run = self._runs.get(endpoint)
        server = self.find(run) if run else None
        if server is None:
            return None
        with server:
            return measure_processes(server.pid)

    def find(self, run: ComputeRun) -> Postmaster | None:
        return postmaster.find(self._data(run), self._find_launched_pid(run))

    def is_alive(self, run: ComputeRun) -> bool:
        return postmaster.is_alive(self._data(run), self._find_launched_pid(run))

    def _find_launched_pid(self, run: ComputeRun) -> int | None:
        """Search for the process if the control process was killed before it recorded the pid."""
        return run.pid or postmaster.find_starting(self._data(run))

    def _data(self, run: ComputeRun) -> Path:
        return self._volumes.folder(run.volume_id).data


def _read_memory(run: ComputeRun, pid: int, read_group: Callable[[str], int | None]) -> int:
    memory = read_group(run.cgroup_name)
    if memory is not None:
        return memory
    usage = measure_processes(pid, exact=False)
    return usage.memory_bytes if usage else 0
