"""The computes that live: which they are, where they listen, and how they end.

Nothing is kept in memory: what was started stands in `runs`, what lives is asked of the system.
So a new control process finds every compute as the one before it left them.
"""

import asyncio
from pathlib import Path

from bough.engine.local.computes import postmaster, process
from bough.engine.local.computes.handover import Handover, is_spare
from bough.engine.local.computes.postmaster import READY, PidFile, Postmaster
from bough.engine.local.computes.runs import Run, Runs
from bough.engine.local.computes.vitals import Vitals, vitals_of
from bough.engine.local.folders import Folders
from bough.engine.local.isolation.accounts import Entrants
from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import EndpointId, VolumeId


class Living:
    def __init__(self, folders: Folders, volumes: Volumes, entrants: Entrants, groups: Cgroups) -> None:
        self._folders = folders
        self._volumes = volumes
        self._entrants = entrants
        self._groups = groups
        self.runs = Runs(folders.runs)
        self.handover = Handover(folders, volumes, self.runs)

    async def adopt(self) -> None:
        """Forget computes that are gone; those that live need nothing more than their file."""
        await unbroken(self._forget_dead)

    async def running(self) -> frozenset[EndpointId]:
        """Endpoints whose compute lives, and spares."""
        return await asyncio.to_thread(
            lambda: frozenset(run.endpoint_id for run in self.runs.all() if self._is_alive(run))
        )

    async def serves(self, volume: VolumeId) -> bool:
        """Whether any compute lives on the volume, whoever started it."""
        return await asyncio.to_thread(postmaster.is_alive, self._volumes.folder(volume).data)

    async def sockets(self, endpoint: EndpointId) -> Path | None:
        """Where the endpoint's compute accepts connections; None when it does not."""
        return await asyncio.to_thread(self._sockets_when_ready, endpoint)

    async def sockets_of(self, volume: VolumeId) -> Path | None:
        """The same, for the compute that serves a volume."""
        return await asyncio.to_thread(self._sockets_of_now, volume)

    async def vitals(self, endpoint: EndpointId) -> Vitals | None:
        """How its processes are; None when it does not run."""
        return await asyncio.to_thread(self._vitals_now, endpoint)

    async def stop(self, endpoint: EndpointId) -> None:
        run = await asyncio.to_thread(self.runs.get, endpoint)
        if run is None:
            return
        live = await asyncio.to_thread(self._find, run)
        if live is not None:
            with live:
                await process.stop(live)
        await unbroken(lambda: self.forget(run))

    async def stop_spare(self, volume: VolumeId) -> None:
        """A compute from the warm pool on the volume, whose endpoint never came; known by a run or not, or dead."""
        data = self._volumes.folder(volume).data
        live = await asyncio.to_thread(postmaster.find, data)
        file = PidFile.read(data)
        if live is not None and file is not None:
            with live:
                name = Path(file.socket_folder).name
                if is_spare(name) and not (self._folders.sockets / name).is_symlink():  # a link: it is an endpoint's
                    await process.stop(live)
                    await self.forget_dead(EndpointId(name))
        await unbroken(lambda: self._forget_dead_spares(volume))

    async def stop_unknown(self, volume: VolumeId) -> None:
        """Whatever lives on the volume without a run, as a crash between two files may leave it."""
        live = await asyncio.to_thread(postmaster.find, self._volumes.folder(volume).data)
        if live is not None:
            with live:
                await process.stop(live)

    async def forget_dead(self, endpoint: EndpointId) -> None:
        await unbroken(lambda: self._forget_when_dead(endpoint))

    async def forget_log(self, endpoint: EndpointId) -> None:
        await asyncio.to_thread(self._folders.log(endpoint).unlink, missing_ok=True)

    def forget(self, run: Run) -> None:
        """What a compute that ended left: its group, its sockets, its run."""
        self._groups.remove(run.group)
        self.handover.forget(run)
        self.runs.remove(run.endpoint_id)

    def _forget_dead(self) -> None:
        self.runs.ensure_tidy()
        for run in list(self.runs.all()):
            self._forget_when_dead(run.endpoint_id)
        self.handover.ensure_tidy()
        self._groups.sweep({run.group for run in self.runs.all()})

    def _forget_dead_spares(self, volume: VolumeId) -> None:
        for run in list(self.runs.all()):
            if run.volume_id == volume and is_spare(run.endpoint_id):
                self._forget_when_dead(run.endpoint_id)

    def _forget_when_dead(self, endpoint: EndpointId) -> None:
        run = self.runs.get(endpoint)
        if run is not None and not self._is_alive(run):
            self.forget(run)

    def _sockets_when_ready(self, endpoint: EndpointId) -> Path | None:
        run = self.runs.get(endpoint)
        if run is None:
            return None
        file = PidFile.read(self._data(run))
        if file is None or file.status != READY or not postmaster.is_postmaster(file.pid, self._data(run)):
            return None
        folder = self._folders.socket_folder(endpoint)
        return folder if process.seal(folder, self._entrants.gateway_gid) else None

    def _sockets_of_now(self, volume: VolumeId) -> Path | None:
        endpoints = [run.endpoint_id for run in self.runs.all() if run.volume_id == volume]
        return next(filter(None, map(self._sockets_when_ready, endpoints)), None)

    def _vitals_now(self, endpoint: EndpointId) -> Vitals | None:
        run = self.runs.get(endpoint)
        live = self._find(run) if run else None
        if live is None:
            return None
        with live:
            return vitals_of(live.pid)

    def _find(self, run: Run) -> Postmaster | None:
        return postmaster.find(self._data(run), self._launched(run))

    def _is_alive(self, run: Run) -> bool:
        return postmaster.is_alive(self._data(run), self._launched(run))

    def _launched(self, run: Run) -> int | None:
        """Control may have been killed before it could note the pid."""
        return run.pid or postmaster.starting(self._data(run))

    def _data(self, run: Run) -> Path:
        return self._volumes.folder(run.volume_id).data
