"""What a server does for the read replicas that follow it: their role, a slot for each, and the side door.

The role's password is ours alone, in the volume's folder; a replica gets it in a file of its own. Whoever calls
holds the volume's lock.
"""

import asyncio
import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bough.engine.local.computes import answers, session, side_door
from bough.engine.local.computes.session import Session
from bough.engine.local.durable import write_atomically
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_files import names, opened_folder
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import EndpointId, VolumeId
from bough.postgres import hba, replication
from bough.postgres.secret import scram_verifier

_MOST_SLOTS = 10_000  # files in the folder of slots; a tenant may have a hundred slots
_LOOKS = 20  # at a slot whose reader has just left
_LOOK = 0.1  # seconds between them


@dataclass(frozen=True, slots=True)
class Secret:
    password: str
    is_told: bool = False  # whether the server knows it


class Primaries:
    def __init__(self, folders: Folders, volumes: Volumes) -> None:
        self._folders = folders
        self._volumes = volumes

    async def password(self, volume: VolumeId) -> str:
        """Of the role that replicas of the volume log in as; made at the first call."""
        return (await unbroken(lambda: _ensure_secret(self._volumes.folder(volume)))).password

    async def welcome(self, volume: VolumeId, sockets: Path, slots: frozenset[str]) -> None:
        """Exactly these find what they need. When nothing changed since the last start, no statement is made."""
        if slots:
            await unbroken(lambda: self._open_door(volume, sockets))
        if slots == await asyncio.to_thread(self._slots, volume) and (not slots or await self._is_told(volume)):
            return
        async with session.opened(sockets) as ours:
            if slots:
                await self._tell(ours, volume)
            present = await _slots_now(ours)
            for name in present.keys() - slots:
                if not present[name]:
                    await ours.rows(replication.DROP_SLOT, name)
            for name in sorted(slots - present.keys()):
                await _make_slot(ours, name)

    async def let_in(self, volume: VolumeId, sockets: Path, slot: str, *, afresh: bool) -> None:
        """One more finds what it needs; `afresh` when it begins anew, and wants nothing that was kept for it."""
        folder = self._volumes.folder(volume)
        await unbroken(lambda: self._open_door(volume, sockets))
        has_slot = slot in await asyncio.to_thread(self._slots, volume)
        if has_slot and not afresh and await self._is_told(volume) and _knows_replicas(folder):
            return
        async with session.opened(sockets) as ours:
            if not _knows_replicas(folder):  # it was started by a version that had none
                await unbroken(lambda: folder.write_conf(hba.FILE, hba.hba_text(), folder.owner))
                await ours.reload()
            await self._tell(ours, volume)
            present = await _slots_now(ours)
            if slot in present and afresh:
                await ours.rows(replication.DROP_SLOT, slot)
            if slot not in present or afresh:
                await _make_slot(ours, slot)

    async def forget(self, sockets: Path, slot: str) -> None:
        """The slot is gone. Its reader has left, which the server may not have noticed yet."""
        async with session.opened(sockets) as ours:
            for _ in range(_LOOKS):
                is_active = (await _slots_now(ours)).get(slot)
                if is_active is False:
                    await ours.rows(replication.DROP_SLOT, slot)
                if not is_active:
                    return
                await asyncio.sleep(_LOOK)

    async def written(self, sockets: Path) -> int:
        """Up to where its WAL is on disk, in bytes."""
        async with session.opened(sockets, limits=session.LOOK) as ours:
            [(position,)] = await ours.rows(replication.WRITTEN)
            return answers.number(position)

    async def _tell(self, ours: Session, volume: VolumeId) -> None:
        """The role, with its password. One that is there may be a parent's, with another."""
        folder = self._volumes.folder(volume)
        secret = await unbroken(lambda: _ensure_secret(folder))
        if secret.is_told:
            return
        [(exists,)] = await ours.rows(replication.ROLE_EXISTS)
        await ours.run(replication.role(scram_verifier(secret.password), exists=exists))
        await unbroken(lambda: _write_secret(folder, replace(secret, is_told=True)))

    async def _is_told(self, volume: VolumeId) -> bool:
        secret = await asyncio.to_thread(_read_secret, self._volumes.folder(volume))
        return secret is not None and secret.is_told

    def _open_door(self, volume: VolumeId, sockets: Path) -> None:
        door = self._folders.side_door(EndpointId(sockets.name))
        side_door.ensure(sockets, door, self._volumes.folder(volume).owner)

    def _slots(self, volume: VolumeId) -> frozenset[str]:
        """Told by the files, so that a start needs no statement for them."""
        try:
            with (
                opened_folder(self._volumes.folder(volume).data) as data,
                opened_folder(replication.SLOTS_FOLDER, data) as slots,
            ):
                found = names(slots, _MOST_SLOTS)
                return frozenset(name for name in found if name.startswith(replication.SLOT_PREFIX))
        except OSError:
            return frozenset()


async def _slots_now(ours: Session) -> dict[str, bool]:
    """Those of replicas, and whether somebody reads by them."""
    return dict(await ours.rows(replication.OUR_SLOTS))


async def _make_slot(ours: Session, name: str) -> None:
    [(is_free,)] = await ours.rows(replication.HAS_FREE_SLOT)
    if not is_free:
        raise EngineError(
            "The branch has no replication slot left for its read replica: drop one that nobody uses "
            "(pg_replication_slots lists them), or raise max_replication_slots.",
            transient=False,
        )
    await ours.rows(replication.MAKE_SLOT, name)


def _knows_replicas(folder: VolumeFolder) -> bool:
    path = folder.conf / hba.FILE
    return path.exists() and path.read_text() == hba.hba_text()


def _ensure_secret(folder: VolumeFolder) -> Secret:
    secret = _read_secret(folder)
    if secret is None:
        secret = Secret(secrets.token_urlsafe(32))
        _write_secret(folder, secret)
    return secret


def _read_secret(folder: VolumeFolder) -> Secret | None:
    try:
        return Secret(**json.loads(_path(folder).read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a power cut may leave it empty
        return None


def _write_secret(folder: VolumeFolder, secret: Secret) -> None:
    write_atomically(_path(folder), json.dumps(asdict(secret)), durable=True)


def _path(folder: VolumeFolder) -> Path:
    return folder.path / "replication.json"
