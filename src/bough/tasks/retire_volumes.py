"""Volumes that no branch has any more: their data goes at once, and their history when nobody can go back to it.

What open work was told to go back to stays until it is over, and so does what another volume's history stands on.
"""

from typing import Protocol

from bough import log
from bough.domain.branch import Volume
from bough.engine.port import BranchEngine, EngineError, HistoryEngine
from bough.ids import VolumeId
from bough.operations import retention
from bough.store.store import Rows, Store

logger = log.get_logger(component="tasks")


class _Engine(BranchEngine, HistoryEngine, Protocol):
    """The part of the engine that this module uses."""


class RetireVolumes:
    interval = 10.0

    def __init__(self, store: Store, engine: _Engine) -> None:
        self._store = store
        self._engine = engine
        self._retired: set[VolumeId] = set()
        self._logged: set[VolumeId] = set()

    async def run(self) -> str:
        async with self._store.read() as rows:
            retired = await rows.lineages.list_retired_volumes()
        for known in (self._retired, self._logged):
            known &= {volume.id for volume in retired}
        gone = sum([await self._settle(volume) for volume in retired])
        return f"removed the history of {gone} volumes that nobody can go back to" if gone else ""

    async def _settle(self, volume: Volume) -> bool:
        """Whether nothing is left of it."""
        async with self._store.read() as rows:
            if not await _may_be_removed(rows, volume):
                return False
        try:
            if volume.id not in self._retired:
                await self._engine.retire_volume(volume.project_id, volume.id)
                self._retired.add(volume.id)
            return await self._remove(volume)
        except EngineError as error:  # the next beat tries again
            if volume.id not in self._logged:
                logger.info(
                    "volume_stays", volume_id=volume.id, project_id=volume.project_id, reason=error.public_message
                )
                self._logged.add(volume.id)
            return False

    async def _remove(self, volume: Volume) -> bool:
        """The rows go last: while they are there it is tried again."""
        async with self._store.read() as rows:
            lineage = await rows.lineages.get_by_volume(volume.id)
            if lineage is not None and await retention.is_retained(rows, lineage.id):
                return False
        await self._engine.ensure_absent(volume.project_id, volume.id)
        async with self._store.transaction(durable=False) as rows:
            if lineage is not None:
                await rows.histories.delete_stretches_of(lineage.id)
            await rows.lineages.remove_volume(volume.id)
        return True


async def _may_be_removed(rows: Rows, volume: Volume) -> bool:
    """A project that is deleted is kept as it is, until it is recovered or goes as a whole."""
    project = await rows.projects.get(volume.project_id)
    if project is None or project.deleted_at is not None:
        return False
    return not await retention.is_named_by_open_operation(rows, project.id, volume.id)
