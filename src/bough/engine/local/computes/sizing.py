"""How large a compute is: what it takes of the machine, and its size while it serves.

A size is a share of processors and memory, told to its control group, and a few settings in a file of their
own, which a signal brings into force. Nobody is disconnected; what would need a restart follows from the
largest size and stays.
"""

import signal
from dataclasses import replace

from bough.domain.scaling import within
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.postmaster import READY, PidFile, Postmaster
from bough.engine.local.computes.runs import Run, Runs
from bough.engine.local.computes.vitals import load_of
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.limits import Limits
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Reading
from bough.engine.spec import ComputeSpec, size_settings
from bough.ids import EndpointId
from bough.postgres import conf


def size_of(run: Run | None, spec: ComputeSpec) -> float:
    """The size it has, within the limits of now; one that never ran begins small."""
    if run is None:
        return spec.least_cu
    return within(run.cu or spec.cu, spec.least_cu, spec.cu)


def limits(spec: ComputeSpec, cu: float) -> Limits:
    return Limits.of(spec.cu, connections=int(spec.settings["max_connections"])).at(cu)


def write(folder: VolumeFolder, cu: float) -> None:
    """The settings of the size, where the next start or reload finds them."""
    folder.write_conf(conf.SIZE_FILE, conf.lines(size_settings(cu)), folder.owner)


class Sizes:
    def __init__(self, runs: Runs, volumes: Volumes, groups: Cgroups) -> None:
        self._runs = runs
        self._volumes = volumes
        self._groups = groups

    def set(self, endpoint: EndpointId, cu: float) -> None:
        """Nothing when it does not run, or has the size. The run is written last: what a crash cuts off is repeated."""
        run = self._runs.get(endpoint)
        if run is None or run.cu == cu:
            return
        live = self._find(run)
        if live is None:
            return
        with live:
            write(self._volumes.folder(run.volume_id), cu)
            live.signal(signal.SIGHUP)
        # How many processes it may have stays as it is.
        self._groups.resize(run.group, Limits.of(run.max_cu or cu, connections=0).at(cu))
        self._runs.put(replace(run, cu=cu))

    def size(self, endpoint: EndpointId) -> float | None:
        """Its size now; None: as large as it may be, or there is none."""
        run = self._runs.get(endpoint)
        return None if run is None else run.cu

    def reading(self, endpoint: EndpointId) -> Reading | None:
        run = self._runs.get(endpoint)
        live = self._find(run) if run else None
        if run is None or live is None:
            return None
        with live:
            taken = load_of(live.pid)
        if taken is None:
            return None
        held = self._groups.needed_bytes(run.group)
        return Reading(
            cu=run.cu,
            cpu_seconds=taken.cpu_seconds,
            memory_bytes=taken.memory_bytes if held is None else held,
        )

    def _find(self, run: Run) -> Postmaster | None:
        """Only when it accepts connections: a server that has just been started would end by the signal."""
        data = self._volumes.folder(run.volume_id).data
        file = PidFile.read(data)
        if file is None or file.status != READY:
            return None
        return postmaster.find(data)
