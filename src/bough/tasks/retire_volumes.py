"""Removes volumes that no branch uses: their data at once, their history when it is no longer retained.

A volume stays while an open operation restores from it or another volume's history depends on it.
"""

from typing import Protocol

from bough import log
from bough.domain.branch import Volume
from bough.engine.port import BranchEngine, EngineError, HistoryEngine
from bough.ids import VolumeId
from bough.operations import retention
from bough.store.store import Rows, Store

logger = log.get_logger(component="tasks")


class _RetirementEngine(BranchEngine, HistoryEngine, Protocol):
    """The part of the engine that this module uses."""


class RetireVolumes:
    interval = 10.0

    def __init__(self, store: Store, engine: _RetirementEngine) -> None:
        self._store = store
        self._engine = engine
        self._retired: set[VolumeId] = set()
        self._logged: set[VolumeId] = set()

    async def run(self) -> str:
        async with self._store.read() as rows:
            retired = await rows.lineages.list_retired_volumes()
        for known in (self._retired, self._logged):
            known &= {volume.id for volume in retired}
        count = sum([await self._retire(volume) for volume in retired])
        return f"removed the history of {count} unused volumes" if count else ""

    async def _retire(self, volume: Volume) -> bool:
        """Retire the volume; return whether it was removed completely."""
        async with self._store.read() as rows:
            if not await _may_be_removed(rows, volume):
                return False
        try:
            if volume.id not in self._retired:
                await self._engine.retire_volume(volume.project_id, volume.id)
                self._retired.add(volume.id)
            return await self._remove(volume)
        except EngineError as error:  # the next run tries again
            if volume.id not in self._logged:
                logger.info(
                    "volume_not_retired", volume_id=volume.id, project_id=volume.project_id, reason=error.public_message
                )
                self._logged.add(volume.id)
            return False

    async def _remove(self, volume: Volume) -> bool:
        """Remove the volume. Its rows are deleted last, so that a failed attempt is repeated."""
        async with self._store.read() as rows:
            lineage = await rows.lineages.get_by_volume(volume.id)
            if lineage is not None and await retention.is_retained(rows, lineage.id):
                return False
        await self._engine.ensure_absent(volume.project_id, volume.id)
        async with self._store.transaction(durable=False) as rows:
            if lineage is not None:
                await rows.histories.delete_branch_lineages_of(lineage.id)
            await rows.lineages.remove_volume(volume.id)
        return True


async def _may_be_removed(rows: Rows, volume: Volume) -> bool:
    """Return False for a deleted project: it stays unchanged until it is recovered or purged."""
    project = await rows.projects.get(volume.project_id)
    if project is None or project.deleted_at is not None:
        return False
    return not await retention.is_named_by_open_operation(rows, project.id, volume.id)
