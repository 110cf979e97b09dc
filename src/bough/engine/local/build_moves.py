"""Which Postgres build a compute starts with, and the way back when it does not start.

A volume moves to the build of its project at a start. Before it moves forward it has a base of the data as the former
build left it. If the new build does not start, the former one is started on the same data, and the new one is not tried
again on this volume until another one is selected or the operator asks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from bough import clock, log
from bough.engine.local.build_uses import BuildUses, PutBackUse, is_forward
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.history.volume_history import VolumeHistory
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.installs.installs import Install
from bough.engine.local.volumes.build_use import BuildUse
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, PutBackBuild, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId

Start = Callable[[Install], Awaitable[Readiness]]

MAX_START_SECONDS = 120.0  # of a build that is new to the volume; it starts from a clean shutdown

logger = log.get_logger(component="engine")


class BuildMoves:
    def __init__(
        self,
        catalog: InstallCatalog,
        volumes: Volumes,
        running: RunningComputes,
        uses: BuildUses,
        history: VolumeHistory,
    ) -> None:
        self._catalog = catalog
        self._volumes = volumes
        self._running = running
        self._uses = uses
        self._history = history
        self._moving: dict[VolumeId, float] = {}  # since when a compute tries to start with a new build

    async def start(self, spec: ComputeSpec, serving: Install, start: Start) -> Readiness:
        """Call `start` with the build that the compute gets. The caller holds the volume's lock."""
        use, former = await asyncio.to_thread(self._uses.read_with_former, spec.volume_id)
        if use is not None and use.install == serving.id:  # the usual case
            return await start(serving)
        former = former if former and former.major == serving.major else None
        install = await self._choose(spec, use, serving, former)
        if former is None or former.id == serving.id or install.id != serving.id:
            readiness = await start(install)
        else:
            can_time_out = use is not None  # a new clone may have much WAL to replay
            readiness = await self._start_new(spec, (serving, former), start, can_time_out=can_time_out)
        if readiness is Readiness.READY:
            await self._record_start(spec)
        return readiness

    def keep(self, volume: VolumeId, serving: Install) -> Install:
        """Return the build for a temporary compute, which does not move the volume. Blocks."""
        return self._uses.read_with_former(volume)[1] or serving

    async def allow_failed_build(self, volume: VolumeId) -> None:
        """Try the build of the project again at the next start, though it did not start before."""
        use = await asyncio.to_thread(self._uses.read, volume)
        if use is not None and use.failed is not None:
            await asyncio.to_thread(self._uses.write, volume, use.without_failure())

    def find_put_back(self, volume: VolumeId) -> PutBackBuild | None:
        """Return the build of the project that did not start on the volume. Blocks."""
        found = self._uses.find_put_back(volume)
        return None if found is None else self.describe(found)

    def describe(self, found: PutBackUse) -> PutBackBuild:
        kept = self._catalog.find(found.use.install)
        return PutBackBuild(
            volume_id=found.volume_id,
            build_id=found.build.id,
            version=found.build.version,
            kept_version=kept.version if kept else found.use.install,
            reason=found.use.reason or "",
            at=datetime.fromisoformat(found.use.failed_at or found.use.since),
        )

    async def _choose(
        self, spec: ComputeSpec, use: BuildUse | None, serving: Install, former: Install | None
    ) -> Install:
        if former is None or former.id == serving.id:
            return serving
        folder = self._volumes.folder(spec.volume_id)
        if await asyncio.to_thread(postmaster.is_alive, folder.data):
            return await self._find_running(spec, serving)
        if use is not None and use.is_put_back_from(serving.id):
            return former
        # The files of a replica are a copy, and a read-only compute does not change them.
        needs_base = spec.primary is None and not spec.is_read_only and is_forward(former, serving)
        has_run = use is not None or await asyncio.to_thread(folder.read_applied_digest) is not None
        if needs_base and has_run and not await self._has_base(spec, use, former):
            logger.info("build_kept", endpoint_id=spec.endpoint_id, build=former.id, newer=serving.id)
            return former
        return serving

    async def _has_base(self, spec: ComputeSpec, use: BuildUse | None, former: Install) -> bool:
        if use is None:  # an earlier version of Bough started it last
            use = BuildUse(pin=spec.install, install=former.id, since=clock.now().isoformat())
            await asyncio.to_thread(self._uses.write, spec.volume_id, use)
        return await self._history.ensure_return_base(spec.volume_id)

    async def _find_running(self, spec: ComputeSpec, serving: Install) -> Install:
        """A compute that runs is not moved, even if changed settings restart it."""
        run = await self._running.find_run(spec.endpoint_id)
        return (self._catalog.find(run.install) if run else None) or serving

    async def _start_new(
        self, spec: ComputeSpec, builds: tuple[Install, Install], start: Start, *, can_time_out: bool
    ) -> Readiness:
        serving = builds[0]
        began = self._moving.setdefault(spec.volume_id, clock.monotonic())
        try:
            readiness = await start(serving)
            if readiness is Readiness.STARTING and can_time_out and clock.monotonic() - began > MAX_START_SECONDS:
                await self._running.stop(spec.endpoint_id)
                raise EngineError("The compute did not accept connections in time.", transient=False)
        except EngineError as error:
            if await self._running.find_sockets(spec.endpoint_id) is not None:
                raise  # it runs
            del self._moving[spec.volume_id]
            return await self._put_back(spec, builds, start, error)
        return readiness

    async def _put_back(
        self, spec: ComputeSpec, builds: tuple[Install, Install], start: Start, error: EngineError
    ) -> Readiness:
        """Raise the error of the new build if the former one does not start either: it is not the cause."""
        serving, former = builds
        await self._running.stop(spec.endpoint_id)
        try:
            readiness = await start(former)
        except EngineError:
            raise error from None
        logger.error(
            "build_put_back",
            endpoint_id=spec.endpoint_id,
            build=serving.id,
            kept=former.id,
            reason=error.public_message,
        )
        use = await asyncio.to_thread(self._uses.read, spec.volume_id)
        use = use or BuildUse(pin=spec.install, install=former.id, since=clock.now().isoformat())
        failed = use.with_failure(serving.id, error.public_message, clock.now(), is_certain=not error.transient)
        await asyncio.to_thread(self._uses.write, spec.volume_id, failed)
        return readiness

    async def _record_start(self, spec: ComputeSpec) -> None:
        """Record the build of a compute that accepts connections. An older one keeps what is known about a newer."""
        self._moving.pop(spec.volume_id, None)
        run = await self._running.find_run(spec.endpoint_id)
        use = await asyncio.to_thread(self._uses.read, spec.volume_id)
        if run is None or (use is not None and use.install == run.install):
            return
        changed = BuildUse(pin=spec.install, install=run.install, since=clock.now().isoformat())
        if use is not None and use.failed not in (None, run.install):
            changed = replace(
                changed, failed=use.failed, failures=use.failures, reason=use.reason, failed_at=use.failed_at
            )
        await asyncio.to_thread(self._uses.write, spec.volume_id, changed)
