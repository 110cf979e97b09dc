"""A compute of our own on a branch that nobody serves, for the moment in which something in it is changed.

It has a run like any other, under a name that is no endpoint's: after a crash the next control finds it and
stops it. Nobody is told where it listens, and it follows no publisher.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bough import clock
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import temporary_name
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import BranchSpec, ComputeSpec, build_compute_settings
from bough.ids import BranchId, VolumeId
from bough.postgres.tenant_settings.table import MAX_PREPARED_TRANSACTIONS

_CU = 0.25
# With less than `logical` a branch that has logical slots does not start, nor one with more prepared transactions
# than there is room for.
_SETTINGS = {
    **build_compute_settings(_CU, logical_replication=True),
    "max_logical_replication_workers": "0",
    "max_prepared_transactions": str(MAX_PREPARED_TRANSACTIONS),
    "max_replication_slots": "100",  # the most that a tenant may have, and with fewer than there are it does not start
}
_LONGEST_RECOVERY = 600.0  # seconds; to give up earlier would begin it anew with the next try
_LONGEST_REPLAY = 3600.0
_REPLAY_CU = 2.0  # somebody waits for it, and it is gone soon


class TemporaryComputes:
    def __init__(self, computes: Computes, running: RunningComputes) -> None:
        self._computes = computes
        self._running = running

    @asynccontextmanager
    async def start_on(
        self, branch: BranchSpec, install: Install, settings: Mapping[str, str] | None = None
    ) -> AsyncIterator[Path]:
        """Where it accepts connections. Whoever asks holds the volume's lock, and knows that nobody serves it.

        `settings` are over those that such a compute has.
        """
        async with self._run(_spec(branch, settings or {}), install, _LONGEST_RECOVERY) as sockets:
            yield sockets

    @asynccontextmanager
    async def start_recovery(
        self, branch: BranchSpec, install: Install, settings: Mapping[str, str]
    ) -> AsyncIterator[Path]:
        """The same, when it has WAL to replay. It may use the machine."""
        async with self._run(_spec(branch, settings, _REPLAY_CU), install, _LONGEST_REPLAY) as sockets:
            yield sockets

    async def stop_on(self, volume: VolumeId) -> None:
        """None is left on the volume, whoever started it."""
        await self._running.stop_unassigned(volume)
        await self._running.delete_log(temporary_name(volume))

    @asynccontextmanager
    async def _run(self, spec: ComputeSpec, install: Install, longest: float) -> AsyncIterator[Path]:
        try:
            yield await self._started(spec, install, longest)
        finally:
            await self._running.stop(spec.endpoint_id)
        await self._running.delete_log(spec.endpoint_id)  # after a failure it says why

    async def _started(self, spec: ComputeSpec, install: Install, longest: float = _LONGEST_RECOVERY) -> Path:
        until = clock.monotonic() + longest
        while await self._computes.ensure_running(spec, install) is not Readiness.READY:
            if clock.monotonic() >= until:
                raise EngineError("The branch recovers, and takes long: try again later.")
        sockets = await self._running.find_sockets(spec.endpoint_id)
        if sockets is None:
            raise EngineError("The compute ended as soon as it was started.")
        return sockets


def _spec(branch: BranchSpec, settings: Mapping[str, str], cu: float = _CU) -> ComputeSpec:
    return ComputeSpec(
        project_id=branch.project_id,
        branch_id=BranchId(branch.volume_id),
        endpoint_id=temporary_name(branch.volume_id),
        volume_id=branch.volume_id,
        install=branch.install,
        max_cu=cu,
        settings={**_SETTINGS, **settings},
        roles=(),
        databases=(),
    )
