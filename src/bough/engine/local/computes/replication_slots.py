"""What a server does for the read replicas that follow it: their role, a slot for each, and the side door.

The role's password is ours alone, in the volume's folder; a replica gets it in a file of its own. Whoever calls
holds the volume's lock.
"""

import asyncio
import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bough.engine.local.computes import query_results, replica_socket, session
from bough.engine.local.computes.session import ComputeSession
from bough.engine.local.durable_files import write_atomically
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_files import list_names, open_folder
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import EndpointId, VolumeId
from bough.postgres import pg_hba, replication
from bough.postgres.scram import scram_verifier

_MOST_SLOTS = 10_000  # files in the folder of slots; a tenant may have a hundred slots
_LOOKS = 20  # at a slot whose reader has just left
_LOOK = 0.1  # seconds between them


@dataclass(frozen=True, slots=True)
class ReplicationPassword:
    password: str
    is_told: bool = False  # whether the server knows it


class ReplicationSlots:
    def __init__(self, folders: Folders, volumes: Volumes) -> None:
        self._folders = folders
        self._volumes = volumes

    async def ensure_password(self, volume: VolumeId) -> str:
        """Of the role that replicas of the volume log in as; made at the first call."""
        return (await run_shielded(lambda: _ensure_secret(self._volumes.folder(volume)))).password

    async def sync_slots(self, volume: VolumeId, sockets: Path, slots: frozenset[str]) -> None:
        """Exactly these find what they need. When nothing changed since the last start, no statement is made."""
        if slots:
            await run_shielded(lambda: self._link_socket(volume, sockets))
        if slots == await asyncio.to_thread(self._slots, volume) and (
            not slots or await self._is_password_applied(volume)
        ):
            return
        async with session.open_session(sockets) as ours:
            if slots:
                await self._apply_password(ours, volume)
            present = await _slots_now(ours)
            for name in present.keys() - slots:
                if not present[name]:
                    await ours.fetch(replication.DROP_SLOT, name)
            for name in sorted(slots - present.keys()):
                await _make_slot(ours, name)

    async def ensure_slot(self, volume: VolumeId, sockets: Path, slot: str, *, recreate: bool) -> None:
        """One more finds what it needs; `afresh` when it begins anew, and wants nothing that was kept for it."""
        folder = self._volumes.folder(volume)
        await run_shielded(lambda: self._link_socket(volume, sockets))
        has_slot = slot in await asyncio.to_thread(self._slots, volume)
        if has_slot and not recreate and await self._is_password_applied(volume) and _knows_replicas(folder):
            return
        async with session.open_session(sockets) as ours:
            if not _knows_replicas(folder):  # it was started by a version that had none
                await run_shielded(lambda: folder.write_conf(pg_hba.HBA_FILE, pg_hba.render_hba(), folder.owner))
                await ours.reload()
            await self._apply_password(ours, volume)
            present = await _slots_now(ours)
            if slot in present and recreate:
                await ours.fetch(replication.DROP_SLOT, slot)
            if slot not in present or recreate:
                await _make_slot(ours, slot)

    async def drop_slot(self, sockets: Path, slot: str) -> None:
        """The slot is gone. Its reader has left, which the server may not have noticed yet."""
        async with session.open_session(sockets) as ours:
            for _ in range(_LOOKS):
                is_active = (await _slots_now(ours)).get(slot)
                if is_active is False:
                    await ours.fetch(replication.DROP_SLOT, slot)
                if not is_active:
                    return
                await asyncio.sleep(_LOOK)

    async def read_flush_position(self, sockets: Path) -> int:
        """Up to where its WAL is on disk, in bytes."""
        async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours:
            [(position,)] = await ours.fetch(replication.SELECT_PRIMARY_LSN)
            return query_results.parse_number(position)

    async def _apply_password(self, ours: ComputeSession, volume: VolumeId) -> None:
        """The role, with its password. One that is there may be a parent's, with another."""
        folder = self._volumes.folder(volume)
        secret = await run_shielded(lambda: _ensure_secret(folder))
        if secret.is_told:
            return
        [(exists,)] = await ours.fetch(replication.ROLE_EXISTS)
        await ours.execute(replication.role_statement(scram_verifier(secret.password), exists=exists))
        await run_shielded(lambda: _write_secret(folder, replace(secret, is_told=True)))

    async def _is_password_applied(self, volume: VolumeId) -> bool:
        secret = await asyncio.to_thread(_read_secret, self._volumes.folder(volume))
        return secret is not None and secret.is_told

    def _link_socket(self, volume: VolumeId, sockets: Path) -> None:
        door = self._folders.replica_socket_folder(EndpointId(sockets.name))
        replica_socket.ensure_link(sockets, door, self._volumes.folder(volume).owner)

    def _slots(self, volume: VolumeId) -> frozenset[str]:
        """Told by the files, so that a start needs no statement for them."""
        try:
            with (
                open_folder(self._volumes.folder(volume).data) as data,
                open_folder(replication.SLOTS_FOLDER, data) as slots,
            ):
                found = list_names(slots, _MOST_SLOTS)
                return frozenset(name for name in found if name.startswith(replication.SLOT_PREFIX))
        except OSError:
            return frozenset()


async def _slots_now(ours: ComputeSession) -> dict[str, bool]:
    """Those of replicas, and whether somebody reads by them."""
    return dict(await ours.fetch(replication.SELECT_REPLICA_SLOTS))


async def _make_slot(ours: ComputeSession, name: str) -> None:
    [(is_free,)] = await ours.fetch(replication.HAS_FREE_SLOT)
    if not is_free:
        raise EngineError(
            "The branch has no replication slot left for its read replica: drop one that nobody uses "
            "(pg_replication_slots lists them), or raise max_replication_slots.",
            transient=False,
        )
    await ours.fetch(replication.CREATE_SLOT, name)


def _knows_replicas(folder: VolumeFolder) -> bool:
    path = folder.conf / pg_hba.HBA_FILE
    return path.exists() and path.read_text() == pg_hba.render_hba()


def _ensure_secret(folder: VolumeFolder) -> ReplicationPassword:
    secret = _read_secret(folder)
    if secret is None:
        secret = ReplicationPassword(secrets.token_urlsafe(32))
        _write_secret(folder, secret)
    return secret


def _read_secret(folder: VolumeFolder) -> ReplicationPassword | None:
    try:
        return ReplicationPassword(**json.loads(_path(folder).read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a power cut may leave it empty
        return None


def _write_secret(folder: VolumeFolder, secret: ReplicationPassword) -> None:
    write_atomically(_path(folder), json.dumps(asdict(secret)), durable=True)


def _path(folder: VolumeFolder) -> Path:
    return folder.path / "replication.json"
