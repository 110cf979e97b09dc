"""Computes of this machine: one `postgres` on one volume for one endpoint.

Nothing is kept in memory: what was started stands in `runs`, what lives is asked of the system.
So a new control process finds every compute as the one before it left them.
"""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local import postmaster, process, session
from bough.engine.local.folders import Folders
from bough.engine.local.installs import Install
from bough.engine.local.postmaster import READY, STOPPING, PidFile, Postmaster
from bough.engine.local.process import Launch
from bough.engine.local.runs import Run, Runs
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.port import Volumes
from bough.engine.local.wish import Wish, wish
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, VolumeId

READY_SECONDS = 10.0  # then the caller is told that it is starting, and asks again
_RETRY_PAUSE = 0.05


class Computes:
    def __init__(self, folders: Folders, volumes: Volumes, user: str) -> None:
        self._folders = folders
        self._volumes = volumes
        self._user = user
        self._runs = Runs(folders.runs)

    async def ensure(self, spec: ComputeSpec, install: Install) -> Readiness:
        wished = wish(spec, major=install.major, user=self._user)
        launch = await unbroken(lambda: self._launch(spec, install))
        await self._leave_other_volume(spec)
        until = clock.monotonic() + READY_SECONDS
        while True:
            try:
                readiness = await self._round(spec, launch, wished, until)
            except EngineError as error:
                if not error.transient or clock.monotonic() >= until:
                    raise
                await asyncio.sleep(_RETRY_PAUSE)
            else:
                if readiness is not None:
                    return readiness

    async def stop(self, endpoint: EndpointId) -> None:
        run = await asyncio.to_thread(self._runs.get, endpoint)
        if run is None:
            return
        live = await asyncio.to_thread(self._find, run)
        if live is not None:
            with live:
                await process.stop(live)
        await unbroken(lambda: self._forget(endpoint))

    async def adopt(self) -> None:
        """Forget computes that are gone; those that live need nothing more than their file."""
        await unbroken(self._forget_dead)

    async def running(self) -> frozenset[EndpointId]:
        return await asyncio.to_thread(
            lambda: frozenset(run.endpoint_id for run in self._runs.all() if self._is_alive(run))
        )

    async def serves(self, volume: VolumeId) -> bool:
        """Whether any compute lives on the volume, whoever started it."""
        return await asyncio.to_thread(postmaster.is_alive, self._volumes.folder(volume).data)

    async def sockets(self, endpoint: EndpointId) -> Path | None:
        """Where the endpoint's compute accepts connections; None when it does not."""
        return await asyncio.to_thread(self._sockets_when_ready, endpoint)

    async def _round(self, spec: ComputeSpec, launch: Launch, wished: Wish, until: float) -> Readiness | None:
        """One go at the wish; None when the compute was stopped for settings that need a restart."""
        live = await self._live(spec, launch) or await self._start(spec, launch, wished)
        with live:
            if not await process.ready(live, launch, until):
                return Readiness.STARTING
            if await self._needs_restart(spec, launch, wished):
                await process.stop(live)
                return None
        await self._apply(spec, launch, wished)
        return Readiness.READY

    async def _live(self, spec: ComputeSpec, launch: Launch) -> Postmaster | None:
        """The compute that serves the volume already; one that is stopping is waited for."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        live = await asyncio.to_thread(postmaster.find, launch.data, run.pid if run else None)
        file = PidFile.read(launch.data)
        if live is None or file is None:
            return live
        if file.status == STOPPING:
            with live:
                await process.stop(live)
            return None
        if file.socket_folder not in ("", str(launch.sockets)):
            live.close()
            raise EngineError("Another endpoint's compute still runs on the branch.")
        return live

    async def _start(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> Postmaster:
        pid = await unbroken(lambda: self._start_now(spec, launch, wished))
        live = Postmaster.open(pid)
        if live is None:
            raise EngineError("The compute ended as soon as it was started.")
        return live

    def _start_now(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> int:
        """The run is written before the process exists: a compute that nobody knows of cannot be."""
        self._write_files(spec.volume_id, launch, wished)
        run = _run(spec, settings=wished.settings)
        self._runs.put(run)
        pid = process.start(launch)
        self._runs.put(replace(run, pid=pid))
        return pid

    async def _needs_restart(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> bool:
        """Bring changed settings in by a reload. They count as in force only when that is done."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id) or _run(spec, settings="")
        if run.settings == wished.settings:
            return False
        await unbroken(lambda: self._write_files(spec.volume_id, launch, wished))
        async with session.opened(launch.sockets) as ours:
            waiting = await ours.reload()
        if not waiting:
            await asyncio.to_thread(self._runs.put, replace(run, settings=wished.settings))
        return waiting

    async def _apply(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> None:
        """Roles and databases, only when they changed: a wake needs no statement."""
        folder = self._volumes.folder(spec.volume_id)
        record = await asyncio.to_thread(folder.read)
        if record is None or record.applied == wished.contents:
            return
        async with session.opened(launch.sockets) as ours:
            await ours.apply(spec.roles, spec.databases, major=launch.install.major, fresh=record.applied is None)
        await unbroken(lambda: folder.write(replace(record, applied=wished.contents)))

    async def _leave_other_volume(self, spec: ComputeSpec) -> None:
        """After a restore the endpoint serves another volume than the one its compute runs on."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is not None and run.volume_id != spec.volume_id:
            await self.stop(spec.endpoint_id)

    def _launch(self, spec: ComputeSpec, install: Install) -> Launch:
        folder = self._volumes.folder(spec.volume_id)
        record = folder.read()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.install != install.id:
            raise EngineError(
                f"The branch was made by {record.install} and is not opened by {install.id}.", transient=False
            )
        return Launch(
            install=install,
            data=folder.data,
            conf=folder.conf,
            sockets=self._folders.socket_folder(spec.endpoint_id),
            log=self._folders.log(spec.endpoint_id),
            owner=folder.owner,
        )

    def _write_files(self, volume: VolumeId, launch: Launch, wished: Wish) -> None:
        for name, text in wished.files.items():
            self._volumes.folder(volume).write_conf(name, text, launch.owner)

    def _sockets_when_ready(self, endpoint: EndpointId) -> Path | None:
        run = self._runs.get(endpoint)
        if run is None:
            return None
        file = PidFile.read(self._data(run))
        if file is None or file.status != READY or not postmaster.is_postmaster(file.pid, self._data(run)):
            return None
        return self._folders.socket_folder(endpoint)

    def _forget_dead(self) -> None:
        for run in list(self._runs.all()):
            if not self._is_alive(run):
                self._forget(run.endpoint_id)

    def _forget(self, endpoint: EndpointId) -> None:
        shutil.rmtree(self._folders.socket_folder(endpoint), ignore_errors=True)
        self._runs.remove(endpoint)

    def _find(self, run: Run) -> Postmaster | None:
        return postmaster.find(self._data(run), run.pid)

    def _is_alive(self, run: Run) -> bool:
        return postmaster.is_alive(self._data(run), run.pid)

    def _data(self, run: Run) -> Path:
        return self._volumes.folder(run.volume_id).data


def _run(spec: ComputeSpec, *, settings: str) -> Run:
    return Run(
        endpoint_id=spec.endpoint_id,
        project_id=spec.project_id,
        volume_id=spec.volume_id,
        install=spec.install,
        settings=settings,
        pid=None,
    )
