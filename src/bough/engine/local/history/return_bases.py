"""The base that a volume needs before another Postgres build opens it: the data as the former build left it.

Where a clone is cheap, and for small volumes, it is taken when the compute starts. Otherwise the start keeps the former
build until the maintenance of the history has taken a base of the running volume.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from bough import log
from bough.engine.local.build_uses import BuildUses
from bough.engine.local.history.bases import Bases
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.volumes.build_use import BuildUse
from bough.engine.local.volumes.disk_usage import is_at_most
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId

# What a start copies where no clone is cheap: about a tenth of a second.
MAX_COPY_BYTES = 128 * 1024**2
MAX_COPY_FILES = 5000

logger = log.get_logger(component="engine")


class ReturnBases:
    def __init__(
        self, volumes: Volumes, bases: Bases, uses: BuildUses, explain_shortage: Callable[[], str | None]
    ) -> None:
        self._volumes = volumes
        self._bases = bases
        self._uses = uses
        self._explain_shortage = explain_shortage

    async def ensure(self, volume: VolumeId) -> bool:
        use = await asyncio.to_thread(self._uses.read, volume)
        if use is None or await asyncio.to_thread(self._has_base, volume, use):
            return True
        if not await self._is_quick(volume):
            return use.needs_no_base
        return await self._try_take(volume, use)

    async def is_ready(self, volume: VolumeId) -> bool:
        use = await asyncio.to_thread(self._uses.read, volume)
        if use is None or use.needs_no_base or await self._is_quick(volume):
            return True
        return await asyncio.to_thread(self._has_base, volume, use)

    async def is_awaited(self, volume: VolumeId, *, has_history: bool) -> bool:
        """Return whether a base is due, because the next start can take none and the volume shall get another build.

        For a volume without history none is: its owner decided that there is nothing to return to.
        """
        pending = await asyncio.to_thread(self._uses.find_pending, volume)
        if pending is None or await self.is_ready(volume):
            return False
        if not has_history:
            await asyncio.to_thread(self._uses.write, volume, replace(pending[0], needs_no_base=True))
        return has_history

    async def _try_take(self, volume: VolumeId, use: BuildUse) -> bool:
        record = await asyncio.to_thread(self._volumes.folder(volume).read_record)
        if record is None or (shortage := await asyncio.to_thread(self._explain_shortage)):
            logger.warning("return_base_not_taken", volume_id=volume, reason=shortage if record else "no volume")
            return False
        name = self._bases.new_name(volume)
        # Named first, so that the base of a project without history is not pruned before the new build has started.
        await asyncio.to_thread(self._uses.write, volume, replace(use, base=name))
        try:
            taken = await self._bases.take_stopped(volume, record, name)
        except EngineError as error:
            logger.warning("return_base_not_taken", volume_id=volume, reason=error.public_message)
            return False
        return taken is not None

    async def _is_quick(self, volume: VolumeId) -> bool:
        if self._volumes.driver.name != "plain":
            return True
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(folder.read_record)
        try:
            return record is not None and await self._volumes.run_blocking(
                lambda: is_at_most(folder.data, MAX_COPY_BYTES, MAX_COPY_FILES), record.project_id
            )
        except (OSError, TenantFileError):
            return False

    def _has_base(self, volume: VolumeId, use: BuildUse) -> bool:
        bases = self._bases.list_bases(volume)
        return any(base.name == use.base or base.at >= use.since_time for base in bases)
