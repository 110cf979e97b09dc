"""Computes of this machine: one `postgres` on one volume for one endpoint.

Nothing is kept in memory: what was started stands in `runs`, what lives is asked of the system.
So a new control process finds every compute as the one before it left them.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local import metrics, postmaster, process, session
from bough.engine.local.accounts import Entrants
from bough.engine.local.cgroups import Cgroups
from bough.engine.local.folders import Folders
from bough.engine.local.handover import Handover, is_spare
from bough.engine.local.installs import Install
from bough.engine.local.limits import Limits
from bough.engine.local.metrics import Kind
from bough.engine.local.postmaster import READY, STOPPING, PidFile, Postmaster
from bough.engine.local.process import Launch
from bough.engine.local.runs import Run, Runs
from bough.engine.local.threads import unbroken
from bough.engine.local.vitals import Vitals, vitals_of
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.local.wish import Wish, wish
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, VolumeId

READY_SECONDS = 10.0  # then the caller is told that it is starting, and asks again
_SHORTEST_PAUSE = 0.05  # between two tries, which wait for what may pass soon
_LONGEST_PAUSE = 1.0


class Computes:
    def __init__(self, folders: Folders, volumes: Volumes, entrants: Entrants, groups: Cgroups) -> None:
        self._folders = folders
        self._volumes = volumes
        self._entrants = entrants
        self._groups = groups
        self._runs = Runs(folders.runs)
        self.handover = Handover(folders, volumes, self._runs)

    async def ensure(self, spec: ComputeSpec, install: Install) -> Readiness:
        began = clock.monotonic()
        wished = wish(spec, major=install.major, entrants=self._entrants)
        launch, kind = await unbroken(lambda: self._prepared(spec, install))
        await self._leave_other_volume(spec)
        until = began + READY_SECONDS
        pause = _SHORTEST_PAUSE
        while True:
            try:
                readiness = await self._round(spec, launch, wished, until)
            except EngineError as error:
                if not error.transient or clock.monotonic() >= until:
                    metrics.start_failed()
                    await unbroken(lambda: self._forget_dead_one(spec.endpoint_id))
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if readiness is Readiness.READY and kind is not None:
                    metrics.started(kind, clock.monotonic() - began)
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
        await unbroken(lambda: self._forget(run))

    async def adopt(self) -> None:
        """Forget computes that are gone; those that live need nothing more than their file."""
        await unbroken(self._forget_dead)

    async def running(self) -> frozenset[EndpointId]:
        """Endpoints whose compute lives, and spares."""
        return await asyncio.to_thread(
            lambda: frozenset(run.endpoint_id for run in self._runs.all() if self._is_alive(run))
        )

    async def runs_as(self, spec: ComputeSpec, install: Install) -> bool:
        """Whether it lives with exactly these settings in force."""
        wished = wish(spec, major=install.major, entrants=self._entrants)
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is None or run.settings != wished.settings or run.install != install.id:
            return False
        return await self.sockets(spec.endpoint_id) is not None

    async def stop_spare(self, volume: VolumeId) -> None:
        """A compute from the warm pool on the volume, whose endpoint never came; known by a run or not."""
        data = self._volumes.folder(volume).data
        live = await asyncio.to_thread(postmaster.find, data)
        file = PidFile.read(data)
        if live is None or file is None:
            return
        with live:
            name = Path(file.socket_folder).name
            if is_spare(name) and not (self._folders.sockets / name).is_symlink():  # a link: it is an endpoint's
                await process.stop(live)
                await unbroken(lambda: self._forget_dead_one(EndpointId(name)))

    async def stop_unknown(self, volume: VolumeId) -> None:
        """Whatever lives on the volume without a run, as a crash between two files may leave it."""
        live = await asyncio.to_thread(postmaster.find, self._volumes.folder(volume).data)
        if live is not None:
            with live:
                await process.stop(live)

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

    async def forget_log(self, endpoint: EndpointId) -> None:
        await asyncio.to_thread(self._folders.log(endpoint).unlink, missing_ok=True)

    async def _round(self, spec: ComputeSpec, launch: Launch, wished: Wish, until: float) -> Readiness | None:
        """One go at the wish; None when the compute was stopped for settings that need a restart."""
        live = await self._live(spec, launch) or await self._start(spec, launch, wished)
        with live:
            # While the server starts: to move a process takes the kernel some milliseconds.
            await unbroken(lambda: self._limit(spec, live.pid))
            if not await process.ready(live, launch, until):
                return Readiness.STARTING
            await unbroken(lambda: self._seal(launch))
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
        if not file.socket_folder or _is_same(file.socket_folder, launch.sockets):
            return live
        live.close()
        if not is_spare(Path(file.socket_folder).name):
            raise EngineError("Another endpoint's compute still runs on the branch.")
        await self.stop_spare(spec.volume_id)  # a crash lost its run, and with it the way to its sockets
        return None

    async def _start(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> Postmaster:
        pid = await unbroken(lambda: self._start_now(spec, launch, wished))
        live = Postmaster.open(pid)
        if live is None:
            raise EngineError("The compute ended as soon as it was started.")
        return live

    def _start_now(self, spec: ComputeSpec, launch: Launch, wished: Wish) -> int:
        """The run is written before the process exists: a compute that nobody knows of cannot be."""
        before = self._runs.get(spec.endpoint_id)
        if before is not None:
            self._forget(before)
        self._write_files(spec.volume_id, launch, wished)
        run = _run(spec, settings=wished.settings)
        self._runs.put(run)
        pid = process.start(launch)
        self._runs.put(replace(run, pid=pid))
        return pid

    def _limit(self, spec: ComputeSpec, pid: int) -> None:
        group = _group(self._runs.get(spec.endpoint_id) or _run(spec, settings=""))
        self._groups.place(group, pid, Limits.of(spec.cu, connections=int(spec.settings["max_connections"])))

    def _seal(self, launch: Launch) -> None:
        if not process.seal(launch.sockets, self._entrants.gateway_gid):
            raise EngineError("The compute replaced its socket by something else: suspend it.", transient=False)

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
        applied = await asyncio.to_thread(folder.applied)
        if applied == wished.contents:
            return
        fresh = applied is None and launch.from_template
        async with session.opened(launch.sockets) as ours:
            await ours.apply(spec.roles, spec.databases, major=launch.install.major, fresh=fresh)
        await unbroken(lambda: folder.write_applied(wished.contents))

    async def _leave_other_volume(self, spec: ComputeSpec) -> None:
        """After a restore the endpoint serves another volume than the one its compute runs on."""
        run = await asyncio.to_thread(self._runs.get, spec.endpoint_id)
        if run is not None and run.volume_id != spec.volume_id:
            await self.stop(spec.endpoint_id)

    def _prepared(self, spec: ComputeSpec, install: Install) -> tuple[Launch, Kind | None]:
        """What to start with, and which kind of start it will be; None: it runs already."""
        folder = self._volumes.folder(spec.volume_id)
        record = self._checked_record(folder, install)
        launch = Launch(
            install=install,
            from_template=record.parent is None,
            data=folder.data,
            conf=folder.conf,
            sockets=self._folders.socket_folder(spec.endpoint_id),
            log=self._folders.log(spec.endpoint_id),
            owner=folder.owner,
        )
        if record.born is not None and self.handover.give_compute(record.born, spec):
            return launch, "warm"
        if postmaster.is_alive(folder.data):
            return launch, None
        return launch, "wake" if folder.applied() else "new"

    def _checked_record(self, folder: VolumeFolder, install: Install) -> VolumeRecord:
        record = folder.read()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.install != install.id:
            raise EngineError(
                f"The branch was made by {record.install} and is not opened by {install.id}.", transient=False
            )
        return record

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
        folder = self._folders.socket_folder(endpoint)
        return folder if process.seal(folder, self._entrants.gateway_gid) else None

    def _sockets_of_now(self, volume: VolumeId) -> Path | None:
        endpoints = [run.endpoint_id for run in self._runs.all() if run.volume_id == volume]
        return next(filter(None, map(self._sockets_when_ready, endpoints)), None)

    def _vitals_now(self, endpoint: EndpointId) -> Vitals | None:
        run = self._runs.get(endpoint)
        live = self._find(run) if run else None
        if live is None:
            return None
        with live:
            return vitals_of(live.pid)

    def _forget_dead(self) -> None:
        self._runs.ensure_tidy()
        for run in list(self._runs.all()):
            self._forget_dead_one(run.endpoint_id)
        self._groups.sweep({_group(run) for run in self._runs.all()})

    def _forget_dead_one(self, endpoint: EndpointId) -> None:
        run = self._runs.get(endpoint)
        if run is not None and not self._is_alive(run):
            self._forget(run)

    def _forget(self, run: Run) -> None:
        self._groups.remove(_group(run))
        self.handover.forget(run)
        self._runs.remove(run.endpoint_id)

    def _find(self, run: Run) -> Postmaster | None:
        return postmaster.find(self._data(run), self._launched(run))

    def _is_alive(self, run: Run) -> bool:
        return postmaster.is_alive(self._data(run), self._launched(run))

    def _launched(self, run: Run) -> int | None:
        """Control may have been killed before it could note the pid."""
        return run.pid or postmaster.starting(self._data(run))

    def _data(self, run: Run) -> Path:
        return self._volumes.folder(run.volume_id).data


def _is_same(told: str, folder: Path) -> bool:
    """A compute from the warm pool tells its first name, which is a link."""
    return os.path.realpath(told) == os.path.realpath(folder)


def _group(run: Run) -> str:
    """A compute from the warm pool stays in the group it was born in: moving it would take time."""
    return run.born or run.endpoint_id


def _run(spec: ComputeSpec, *, settings: str) -> Run:
    return Run(
        endpoint_id=spec.endpoint_id,
        project_id=spec.project_id,
        volume_id=spec.volume_id,
        install=spec.install,
        settings=settings,
        pid=None,
    )
