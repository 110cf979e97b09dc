"""What a volume driver offers. Every verb may be repeated, also after a crash in its middle."""

from pathlib import Path
from typing import Protocol

from bough.engine.local.sandbox import Identity
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.ids import VolumeId


class Volumes(Protocol):
    @property
    def driver(self) -> str: ...

    def folder(self, volume: VolumeId) -> VolumeFolder:
        """Where the volume is, or would be."""

    async def ensure_volume(self, volume: VolumeId, source: Path, record: VolumeRecord, owner: Identity) -> None:
        """The volume exists, whole and synced; when it is new, its data is a clone of the folder `source`."""

    async def ensure_absent(self, volume: VolumeId) -> None:
        """The volume and all that was begun of it are gone."""

    async def ensure_tidy(self) -> None:
        """Nothing half made or half removed is left. Only for a start: nothing may be in the making."""

    async def present(self) -> frozenset[VolumeId]:
        """The volumes that exist whole."""

    def close(self) -> None: ...
