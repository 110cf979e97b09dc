"""Sizes and resource usage of computes.

A size is a share of CPU and memory, applied through the control group, and a few settings in a file of their own, which
a reload applies. A resize disconnects no client: settings that need a restart depend on the maximum size only.
"""

import signal
from dataclasses import replace

from bough.domain.autoscaling import clamp_size
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.pid_file import READY, PidFile
from bough.engine.local.computes.postmaster_process import Postmaster
from bough.engine.local.computes.process_usage import measure_processes
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.resource_limits import ResourceLimits
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import LoadSample
from bough.engine.spec import ComputeSpec, build_size_settings
from bough.ids import EndpointId
from bough.postgres import postgresql_conf


def choose_size(run: ComputeRun | None, spec: ComputeSpec) -> float:
    """Return its last size, within the current limits. A compute without a run starts with its minimum size."""
    if run is None:
        return spec.effective_min_cu
    return clamp_size(run.cu or spec.max_cu, spec.effective_min_cu, spec.max_cu)


def build_limits(spec: ComputeSpec, cu: float) -> ResourceLimits:
    return ResourceLimits.for_max_size(spec.max_cu, connections=int(spec.settings["max_connections"])).at_size(cu)


def write_size_settings(folder: VolumeFolder, cu: float) -> None:
    """Write the settings of a size for the next start or reload."""
    folder.write_conf(postgresql_conf.SIZE_FILE, postgresql_conf.render_lines(build_size_settings(cu)), folder.owner)


class ComputeSizes:
    def __init__(self, runs: ComputeRuns, volumes: Volumes, cgroups: Cgroups) -> None:
        self._runs = runs
        self._volumes = volumes
        self._cgroups = cgroups

    def resize(self, endpoint: EndpointId, cu: float) -> None:
        """Resize a running compute. The run is written last, so that an interrupted resize is repeated."""
        run = self._runs.get(endpoint)
        if run is None or run.cu == cu:
            return
        process = self._find_ready(run)
        if process is None:
            return
        with process:
            write_size_settings(self._volumes.folder(run.volume_id), cu)
            process.signal(signal.SIGHUP)
        # A resize does not change the limit on processes, so the number of connections does not matter here.
        self._cgroups.resize(run.cgroup_name, ResourceLimits.for_max_size(run.max_cu or cu, connections=0).at_size(cu))
        self._runs.put(replace(run, cu=cu))

    def read_size(self, endpoint: EndpointId) -> float | None:
        """Return its current size, or None when it has its maximum size or does not run."""
        run = self._runs.get(endpoint)
        return None if run is None else run.cu

    def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        run = self._runs.get(endpoint)
        process = self._find_ready(run) if run else None
        if run is None or process is None:
            return None
        with process:
            usage = measure_processes(process.pid, exact=False)
        if usage is None:
            return None
        unreclaimable = self._cgroups.read_unreclaimable_bytes(run.cgroup_name)
        return LoadSample(
            cu=run.cu,
            cpu_seconds=usage.cpu_seconds,
            memory_bytes=usage.memory_bytes if unreclaimable is None else unreclaimable,
        )

    def _find_ready(self, run: ComputeRun) -> Postmaster | None:
        """Return the process if it accepts connections. SIGHUP would kill a server that has only just started."""
        data = self._volumes.folder(run.volume_id).data
        file = PidFile.read(data)
        if file is None or file.status != READY:
            return None
        return postmaster.find(data)
