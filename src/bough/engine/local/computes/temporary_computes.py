"""Temporary computes: the platform starts one to inspect or change a branch that has no running compute.

A temporary compute has a run like any other, under a name that is no endpoint id, so that the next control process
stops it after a crash. No client learns its address, and it applies no logical replication.
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
# A branch with logical slots does not start with a lower wal_level, nor one with more prepared transactions than
# max_prepared_transactions.
_SETTINGS = {
    **build_compute_settings(_CU, logical_replication=True),
    "max_logical_replication_workers": "0",
    "max_prepared_transactions": str(MAX_PREPARED_TRANSACTIONS),
    "max_replication_slots": "100",  # the maximum for tenants; a server does not start with fewer than it has slots
}
_RECOVERY_TIMEOUT = 600.0  # seconds; after a timeout the next attempt starts recovery from the beginning
_REPLAY_TIMEOUT = 3600.0
_REPLAY_CU = 2.0  # a user waits for the replay, and the compute is short-lived


class TemporaryComputes:
    def __init__(self, computes: Computes, running: RunningComputes) -> None:
        self._computes = computes
        self._running = running

    @asynccontextmanager
    async def start_on(
        self, branch: BranchSpec, install: Install, settings: Mapping[str, str] | None = None
    ) -> AsyncIterator[Path]:
        """Start a temporary compute and yield its socket folder. `settings` override those of temporary computes.

        The caller holds the volume's lock and knows that no compute runs on the volume.
        """
        async with self._run(_spec(branch, settings or {}), install, _RECOVERY_TIMEOUT) as sockets:
            yield sockets

    @asynccontextmanager
    async def start_recovery(
        self, branch: BranchSpec, install: Install, settings: Mapping[str, str]
    ) -> AsyncIterator[Path]:
        """Like `start_on`, with more time and a larger size, to replay WAL."""
        async with self._run(_spec(branch, settings, _REPLAY_CU), install, _REPLAY_TIMEOUT) as sockets:
            yield sockets

    async def stop_on(self, volume: VolumeId) -> None:
        """Stop a temporary compute or unassigned spare on the volume."""
        await self._running.stop_unassigned(volume)
        await self._running.delete_log(temporary_name(volume))

    @asynccontextmanager
    async def _run(self, spec: ComputeSpec, install: Install, timeout: float) -> AsyncIterator[Path]:
        try:
            yield await self._start(spec, install, timeout)
        finally:
            await self._running.stop(spec.endpoint_id)
        await self._running.delete_log(spec.endpoint_id)  # only after success: the log explains a failure

    async def _start(self, spec: ComputeSpec, install: Install, timeout: float = _RECOVERY_TIMEOUT) -> Path:
        deadline = clock.monotonic() + timeout
        while await self._computes.ensure_running(spec, install) is not Readiness.READY:
            if clock.monotonic() >= deadline:
                raise EngineError("The branch is still recovering: try again later.")
        sockets = await self._running.find_sockets(spec.endpoint_id)
        if sockets is None:
            raise EngineError("The compute exited immediately after its start.")
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
