"""What a primary provides for its read replicas: a role, a slot for each, and access to its socket.

The platform keeps the password of the role in the volume's folder; a replica gets it in a password file. The caller
holds the volume's lock.

Only the gateway may traverse the folder of a socket. A second folder, which the project's user can traverse and only
the platform can change, contains a hard link to the same socket. A restarted server has a new socket: until that is
linked, replicas cannot connect, and retry.
"""

import asyncio
import json
import os
import secrets
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from bough.engine.local.computes import query_results
from bough.engine.local.computes.session import INSPECTION_LIMITS, ComputeSession, open_session
from bough.engine.local.durable_files import write_atomically
from bough.engine.local.folders import SOCKET_NAME, Folders, check_socket_path
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import list_names, open_folder
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import EndpointId, VolumeId
from bough.postgres import pg_hba, replication
from bough.postgres.scram import scram_verifier

_MAX_SLOTS = 10_000  # entries in the folder of slots; a tenant may have a hundred slots
_POLL_ATTEMPTS = 20  # for a slot whose reader has just disconnected
_POLL_INTERVAL = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class ReplicationPassword:
    password: str
    is_applied: bool = False  # whether the server knows it


class ReplicationSlots:
    def __init__(self, folders: Folders, volumes: Volumes) -> None:
        self._folders = folders
        self._volumes = volumes

    async def ensure_password(self, volume: VolumeId) -> str:
        """Return the password of the role that the volume's replicas log in as. The first call creates it."""
        return (await run_shielded(lambda: _ensure_secret(self._volumes.folder(volume)))).password

    async def sync_slots(self, volume: VolumeId, sockets: Path, slots: frozenset[str]) -> None:
        """Make exactly these slots exist. Execute no statement if nothing changed since the last start."""
        if slots:
            await run_shielded(lambda: self._link_socket(volume, sockets))
        if slots == await asyncio.to_thread(self._read_slot_names, volume) and (
            not slots or await self._is_password_applied(volume)
        ):
            return
        async with open_session(sockets) as session:
            if slots:
                await self._apply_password(session, volume)
            existing = await _fetch_slots(session)
            for name in existing.keys() - slots:
                if not existing[name]:
                    await session.fetch(replication.DROP_SLOT, name)
            for name in sorted(slots - existing.keys()):
                await _create_slot(session, name)

    async def ensure_slot(self, volume: VolumeId, sockets: Path, slot: str, *, recreate: bool) -> None:
        """Make one more slot exist. `recreate` discards the WAL that an existing slot retains."""
        folder = self._volumes.folder(volume)
        await run_shielded(lambda: self._link_socket(volume, sockets))
        has_slot = slot in await asyncio.to_thread(self._read_slot_names, volume)
        if has_slot and not recreate and await self._is_password_applied(volume) and _has_current_hba(folder):
            return
        async with open_session(sockets) as session:
            if not _has_current_hba(folder):  # a version without read replicas started the server
                await run_shielded(lambda: folder.write_conf(pg_hba.HBA_FILE, pg_hba.render_hba(), folder.owner))
                await session.reload()
            await self._apply_password(session, volume)
            existing = await _fetch_slots(session)
            if slot in existing and recreate:
                await session.fetch(replication.DROP_SLOT, slot)
            if slot not in existing or recreate:
                await _create_slot(session, slot)

    async def drop_slot(self, sockets: Path, slot: str) -> None:
        """Drop the slot. Its reader has disconnected, but the server may not have noticed yet."""
        async with open_session(sockets) as session:
            for _ in range(_POLL_ATTEMPTS):
                is_active = (await _fetch_slots(session)).get(slot)
                if is_active is False:
                    await session.fetch(replication.DROP_SLOT, slot)
                if not is_active:
                    return
                await asyncio.sleep(_POLL_INTERVAL)

    async def read_flush_position(self, sockets: Path) -> int:
        """Return the position, in bytes, up to which the WAL is on disk."""
        async with open_session(sockets, limits=INSPECTION_LIMITS) as session:
            [(position,)] = await session.fetch(replication.SELECT_PRIMARY_LSN)
            return query_results.parse_number(position)

    async def _apply_password(self, session: ComputeSession, volume: VolumeId) -> None:
        """Create the role, or set its password: an existing one may be inherited from the parent branch."""
        folder = self._volumes.folder(volume)
        secret = await run_shielded(lambda: _ensure_secret(folder))
        if secret.is_applied:
            return
        [(exists,)] = await session.fetch(replication.ROLE_EXISTS)
        await session.execute(replication.role_statement(scram_verifier(secret.password), exists=exists))
        await run_shielded(lambda: _write_secret(folder, replace(secret, is_applied=True)))

    async def _is_password_applied(self, volume: VolumeId) -> bool:
        secret = await asyncio.to_thread(_read_secret, self._volumes.folder(volume))
        return secret is not None and secret.is_applied

    def _link_socket(self, volume: VolumeId, sockets: Path) -> None:
        folder = self._folders.replica_socket_folder(EndpointId(sockets.name))
        _ensure_linked(sockets, folder, self._volumes.folder(volume).owner)

    def _read_slot_names(self, volume: VolumeId) -> frozenset[str]:
        """Read the files instead of the catalog, so that a start needs no statement."""
        try:
            with (
                open_folder(self._volumes.folder(volume).data) as data,
                open_folder(replication.SLOTS_FOLDER, data) as slots,
            ):
                names = list_names(slots, _MAX_SLOTS)
                return frozenset(name for name in names if name.startswith(replication.SLOT_PREFIX))
        except OSError:
            return frozenset()


async def _fetch_slots(session: ComputeSession) -> dict[str, bool]:
    """Return the slots of replicas, and whether each is active."""
    return dict(await session.fetch(replication.SELECT_REPLICA_SLOTS))


async def _create_slot(session: ComputeSession, name: str) -> None:
    [(is_free,)] = await session.fetch(replication.HAS_FREE_SLOT)
    if not is_free:
        raise EngineError(
            "The branch has no replication slot left for its read replica: drop an unused slot "
            "(pg_replication_slots lists them), or raise max_replication_slots.",
            transient=False,
        )
    await session.fetch(replication.CREATE_SLOT, name)


def _has_current_hba(folder: VolumeFolder) -> bool:
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
        fields = json.loads(_secret_path(folder).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a power failure may leave it empty
        return None
    return ReplicationPassword(fields["password"], fields.get("is_told", False))


def _write_secret(folder: VolumeFolder, secret: ReplicationPassword) -> None:
    fields = {"password": secret.password, "is_told": secret.is_applied}
    write_atomically(_secret_path(folder), json.dumps(fields), durable=True)


def _secret_path(folder: VolumeFolder) -> Path:
    return folder.path / "replication.json"


def _ensure_linked(sockets: Path, folder: Path, owner: Identity) -> None:
    """Link the socket in `sockets`, which must be sealed, into the folder for replicas. Idempotent."""
    check_socket_path(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_linked(sockets, folder):
        _link(sockets / SOCKET_NAME, folder / SOCKET_NAME)
    status = folder.stat()
    if not owner.is_current_user and (status.st_gid, stat.S_IMODE(status.st_mode)) != (owner.gid, 0o710):
        os.chown(folder, -1, owner.gid)
        folder.chmod(0o710)


def _is_linked(sockets: Path, folder: Path) -> bool:
    try:
        return os.path.samestat((folder / SOCKET_NAME).lstat(), (sockets / SOCKET_NAME).lstat())
    except FileNotFoundError:
        return False


def _link(socket: Path, name: Path) -> None:
    temporary = name.with_name(".new")
    temporary.unlink(missing_ok=True)
    os.link(socket, temporary, follow_symlinks=False)
    if not stat.S_ISSOCK(temporary.lstat().st_mode):
        temporary.unlink()
        raise EngineError("The compute replaced its socket with another file: suspend the endpoint.", transient=False)
    temporary.rename(name)
