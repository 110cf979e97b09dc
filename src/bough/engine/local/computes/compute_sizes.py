"""How large a compute is: what it takes of the machine, and its size while it serves.

A size is a share of processors and memory, told to its control group, and a few settings in a file of their
own, which a signal brings into force. Nobody is disconnected; what would need a restart follows from the
largest size and stays.
"""

import signal
from dataclasses import replace

from bough.domain.autoscaling import clamp_size
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.postmaster import READY, PidFile, Postmaster
from bough.engine.local.computes.process_usage import measure_processes_cheaply
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
    """The size it has, within the limits of now; one that never ran begins small."""
    if run is None:
        return spec.effective_min_cu
    return clamp_size(run.cu or spec.max_cu, spec.effective_min_cu, spec.max_cu)


def build_limits(spec: ComputeSpec, cu: float) -> ResourceLimits:
    return ResourceLimits.for_max_size(spec.max_cu, connections=int(spec.settings["max_connections"])).at_size(cu)


def write_size_settings(folder: VolumeFolder, cu: float) -> None:
    """The settings of the size, where the next start or reload finds them."""
    folder.write_conf(postgresql_conf.SIZE_FILE, postgresql_conf.render_lines(build_size_settings(cu)), folder.owner)


class ComputeSizes:
    def __init__(self, runs: ComputeRuns, volumes: Volumes, cgroups: Cgroups) -> None:
        self._runs = runs
        self._volumes = volumes
        self._cgroups = cgroups

    def resize(self, endpoint: EndpointId, cu: float) -> None:
        """Nothing when it does not run, or has the size. The run is written last: what a crash cuts off is repeated."""
        run = self._runs.get(endpoint)
        if run is None or run.cu == cu:
            return
        live = self._find(run)
        if live is None:
            return
        with live:
            write_size_settings(self._volumes.folder(run.volume_id), cu)
            live.signal(signal.SIGHUP)
        # How many processes it may have stays as it is.
        self._cgroups.resize(run.cgroup_name, ResourceLimits.for_max_size(run.max_cu or cu, connections=0).at_size(cu))
        self._runs.put(replace(run, cu=cu))

    def read_size(self, endpoint: EndpointId) -> float | None:
        """Its size now; None: as large as it may be, or there is none."""
        run = self._runs.get(endpoint)
        return None if run is None else run.cu

    def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        run = self._runs.get(endpoint)
        live = self._find(run) if run else None
        if run is None or live is None:
            return None
        with live:
            taken = measure_processes_cheaply(live.pid)
        if taken is None:
            return None
        held = self._cgroups.read_unreclaimable_bytes(run.cgroup_name)
        return LoadSample(
            cu=run.cu,
            cpu_seconds=taken.cpu_seconds,
            memory_bytes=taken.memory_bytes if held is None else held,
        )

    def _find(self, run: ComputeRun) -> Postmaster | None:
        """Only when it accepts connections: a server that has just been started would end by the signal."""
        data = self._volumes.folder(run.volume_id).data
        file = PidFile.read(data)
        if file is None or file.status != READY:
            return None
        return postmaster.find(data)
