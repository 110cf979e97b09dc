"""Creates the volume of a branch: from the template, or from another branch as it is now.

A branch with a running compute is copied like a base backup, together with the WAL written meanwhile. The compute goes
on serving, and the copy recovers to one point when it starts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bough import clock
from bough.domain.history import HEAD, Point
from bough.engine.local import origins
from bough.engine.local.computes import backup_label, process, session, standby_files
from bough.engine.local.computes.extension_reading import read_extensions
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.installs.installs import Install
from bough.engine.local.origins import VolumeStart
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.btrfs_commits import commit_continuously
from bough.engine.local.volumes.extension_record import ExtensionRecord
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.new_volume import NewVolume
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal
from bough.postgres.backup import LABEL_FILE, BackupEnd, parse_first_segment
from bough.postgres.control_file import ControlFile

_EXTENSIONS_TIMEOUT = 5.0  # seconds


class BranchVolumes:
    def __init__(
        self,
        volumes: Volumes,
        templates: Templates,
        running: RunningComputes,
        project_users: ProjectUsers,
        locks: NamedLocks,
    ) -> None:
        self._volumes = volumes
        self._templates = templates
        self._running = running
        self._project_users = project_users
        self._locks = locks  # of volumes: a stopped parent must not start while it is copied

    async def create(self, spec: BranchSpec, install: Install) -> Origin:
        """Create the volume, which must not exist. A failure leaves nothing behind."""
        source = spec.source_volume_id
        if source is None:
            return await self._create(
                spec, install.template_name, lambda new_volume: self._clone_template(new_volume, install)
            )
        parent = await asyncio.to_thread(self._check_parent, source, install)
        return await self._create(spec, parent.template, lambda new_volume: self.clone(new_volume, source))

    async def try_create_from_stopped(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin | None:
        """Create the volume at a point after which its stopped parent was not written to.

        Return None if the parent is running, or was or may have been written to after the point.
        """
        record = await asyncio.to_thread(self._check_parent, parent, install)
        async with self._locks.lock(parent):
            if await self._running.await_volume_sockets(parent) is not None:
                return None
            if not await asyncio.to_thread(
                origins.is_unchanged_since, self._volumes.folder(parent).data, record, spec.point
            ):
                return None
            return await self._create(
                spec, record.template, lambda new_volume: self._clone_stopped(new_volume, parent, record, spec.point)
            )

    async def _create(
        self, spec: BranchSpec, template: str, fill: Callable[[NewVolume], Awaitable[VolumeStart]]
    ) -> Origin:
        record = VolumeRecord(
            project_id=spec.project_id,
            template=template,
            source_volume_id=spec.source_volume_id,
            is_replica=spec.is_replica,
            is_self_contained=spec.is_snapshot,
        )
        try:
            async with (
                self._project_users.acquire(spec.project_id) as owner,
                self._volumes.create(spec.volume_id, record, owner) as new_volume,
            ):
                extensions = await self._read_extensions(spec)
                start = await fill(new_volume)
                if extensions is not None:
                    await run_shielded(lambda: new_volume.write_extensions(extensions))
                await run_shielded(lambda: new_volume.write_origin(start.origin, start.first_segment))
        except BaseException:
            await self._project_users.release_if_unused(spec.project_id)
            raise
        return start.origin

    async def _read_extensions(self, spec: BranchSpec) -> ExtensionRecord | None:
        """Return what the new volume inherits. A snapshot never runs, so the record of its source must be current."""
        if spec.source_volume_id is None:
            return ExtensionRecord()
        source = spec.source_volume_id
        folder = self._volumes.folder(source)
        known = await asyncio.to_thread(ExtensionRecord.read, folder.path)
        sockets = await self._running.find_volume_sockets(source) if spec.is_snapshot else None
        record = await asyncio.to_thread(folder.read_record) if sockets else None
        if sockets is None or record is None:
            return known
        try:
            found = await read_extensions(sockets, record.major, timeout=_EXTENSIONS_TIMEOUT)
        except EngineError:
            found = ExtensionRecord(is_complete=False)
        return found.with_earlier(known)

    async def clone(self, new_volume: NewVolume, parent: VolumeId) -> VolumeStart:
        record = await asyncio.to_thread(self._read_parent, parent)
        async with self._locks.lock(parent):
            sockets = await self._running.await_volume_sockets(parent)
            if sockets is None:
                return await self._clone_stopped(new_volume, parent, record)
            if await asyncio.to_thread(standby_files.has_signal, self._volumes.folder(parent).data):
                return await self._clone_read_only(new_volume, parent, sockets)
        return await self._clone_running(new_volume, parent, sockets, record.major)

    async def clone_stopped(self, new_volume: NewVolume, parent: VolumeId) -> VolumeStart:
        """Like `clone`, for a caller that holds the parent's lock and knows that no compute runs on it."""
        record = await asyncio.to_thread(self._read_parent, parent)
        return await self._clone_stopped(new_volume, parent, record)

    async def _clone_template(self, new_volume: NewVolume, install: Install) -> VolumeStart:
        template = await run_shielded(lambda: self._templates.ensure(install))
        cloned = await self._volumes.run_blocking(
            lambda: _clone_whole(new_volume, template, template / "pg_wal"), new_volume.project_id
        )
        return VolumeStart(Origin(), cloned.recovery_segment, cloned.recovery_segment)

    async def _clone_stopped(
        self, new_volume: NewVolume, parent: VolumeId, record: VolumeRecord, point: Point = HEAD
    ) -> VolumeStart:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        await run_shielded(lambda: process.clean_up_after_crash(data, source_wal))
        cloned = await self._volumes.run_blocking(
            lambda: _clone_whole(new_volume, data, source_wal), new_volume.project_id
        )
        if cloned.control is None:
            origin, first_segment = origins.from_unopened_copy(record.origin), record.first_segment
        else:
            origin = await asyncio.to_thread(origins.from_control_file, new_volume.data, cloned.control)
            first_segment = cloned.recovery_segment
        return VolumeStart(replace(origin, at=point.at or origin.at), cloned.recovery_segment, first_segment)

    async def _clone_read_only(self, new_volume: NewVolume, parent: VolumeId, sockets: Path) -> VolumeStart:
        """After one last checkpoint, no file of a read-only compute changes any more."""
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        async with session.open_session(sockets) as connection:
            await connection.execute("checkpoint")
            has_subscriptions = await connection.has_subscriptions()
        cloned = await self._volumes.run_blocking(
            lambda: _clone_whole(new_volume, data, source_wal), new_volume.project_id
        )
        lsn = cloned.control.checkpoint if cloned.control else None
        return VolumeStart(
            Origin(lsn=lsn, at=clock.now(), has_subscriptions=has_subscriptions),
            cloned.recovery_segment,
            cloned.recovery_segment,
        )

    async def _clone_running(self, new_volume: NewVolume, parent: VolumeId, sockets: Path, major: int) -> VolumeStart:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        async with session.open_session(sockets) as connection:
            async with commit_continuously(data, source_wal):
                first = await connection.start_backup(major)
            await self._run_blocking(lambda: new_volume.clone(data), new_volume.project_id)
            # Read before and after: a subscription that is created or dropped meanwhile may be in the copy.
            has_subscriptions = await connection.has_subscriptions()
            end = await connection.stop_backup(major)
            origin = origins.from_backup(
                end, has_subscriptions=has_subscriptions or await connection.has_subscriptions()
            )
            # Within the session, which keeps the segments from being recycled.
            await self._run_blocking(lambda: _add_backup(new_volume, source_wal, first, end), new_volume.project_id)
        # The backup ended its segment. A server that recovers from a backup label does not archive what it reads.
        return VolumeStart(origin, first, wal.next_segment(end.last_segment))

    async def _run_blocking(self, blocking: Callable[[], None], project: ProjectId) -> None:
        """Translate disk errors here, because the session would report them as its own."""
        with translate_os_errors():
            await self._volumes.run_blocking(blocking, project)

    def _check_parent(self, parent: VolumeId, install: Install) -> VolumeRecord:
        record = self._read_parent(parent)
        if record.major != install.major:
            raise EngineError(
                f"The parent branch was created with Postgres {record.major}, so a child branch cannot use "
                f"{install.id}.",
                transient=False,
            )
        return record

    def _read_parent(self, parent: VolumeId) -> VolumeRecord:
        record = self._volumes.folder(parent).read_record()
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        if record.is_pending:
            raise EngineError("The parent branch is still being recovered.")
        self._volumes.folder(parent).check_not_archived()
        return record


@dataclass(frozen=True, slots=True)
class _Clone:
    """The WAL that recovery of the clone starts with, and the control file that was copied."""

    control: ControlFile | None  # None if no server has opened the data directory yet
    recovery_segment: str


def _clone_whole(new_volume: NewVolume, source: Path, source_wal: Path) -> _Clone:
    new_volume.clone(source)
    label = backup_label.read_pending_label(source)
    if label is None:
        control = new_volume.clone_needed_wal(source_wal)
        return _Clone(control, control.first_segment)
    return _Clone(None, _copy_pending_backup(new_volume, source_wal, label))


def _copy_pending_backup(new_volume: NewVolume, source_wal: Path, label: str) -> str:
    """The source is itself a copy that no server has recovered yet, and so is its copy."""
    first = parse_first_segment(label)
    if first is None:
        raise EngineError("The parent branch's backup label cannot be parsed.", transient=False)
    new_volume.clone_wal_from(source_wal, first)
    new_volume.write_file(LABEL_FILE, label)
    return first


def _add_backup(new_volume: NewVolume, source_wal: Path, first: str, end: BackupEnd) -> None:
    try:
        new_volume.clone_wal(source_wal, wal.segment_names(first, end.last_segment))
    except (FileNotFoundError, ValueError) as error:
        raise EngineError(
            "The parent branch's WAL was recycled during the copy, because it writes too fast: try again."
        ) from error
    new_volume.write_file(LABEL_FILE, end.label)
