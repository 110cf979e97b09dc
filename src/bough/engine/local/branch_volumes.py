"""Making a branch's volume: from the template, or from another branch as it is now.

A branch whose compute runs is copied as a backup is: between two statements, with the WAL that was
written meanwhile. The compute goes on serving, and the copy recovers to one moment when it starts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bough import clock
from bough.domain.history import HEAD, Point
from bough.engine.local import origins
from bough.engine.local.computes import backup_label, process, session, standby_files
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.installs.installs import Install
from bough.engine.local.origins import VolumeStart
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.btrfs_commits import commit_continuously
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import NewVolume, Volumes
from bough.engine.port import EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal
from bough.postgres.backup import LABEL_FILE, BackupEnd, parse_first_segment
from bough.postgres.control_file import ControlFile


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
        self._locks = locks  # of volumes: a parent that sleeps must not wake while it is copied

    async def create(self, spec: BranchSpec, install: Install) -> Origin:
        """The volume, which does not exist. After a failure nothing of it does."""
        return await self._create(spec, install, lambda made: self.clone(made, spec.parent, install))

    async def try_create_from_stopped(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin | None:
        """The same at a point of its parent's life after which nothing was written, because it sleeps; None when
        something was, or when nobody knows.
        """
        record = await asyncio.to_thread(self._checked_parent, parent, install)
        async with self._locks.lock(parent):
            if await self._running.await_volume_sockets(parent) is not None:
                return None
            if not await asyncio.to_thread(
                origins.is_unchanged_since, self._volumes.folder(parent).data, record, spec.point
            ):
                return None
            return await self._create(spec, install, lambda made: self._clone_stopped(made, parent, record, spec.point))

    async def _create(
        self, spec: BranchSpec, install: Install, fill: Callable[[NewVolume], Awaitable[VolumeStart]]
    ) -> Origin:
        record = VolumeRecord(
            project_id=spec.project_id,
            install=install.id,
            parent=spec.parent,
            is_replica=spec.is_replica,
            begins_itself=spec.is_snapshot,
        )
        try:
            async with (
                self._project_users.acquire(spec.project_id) as owner,
                self._volumes.create(spec.volume_id, record, owner) as made,
            ):
                begun = await fill(made)
                await run_shielded(lambda: made.write_origin(begun.origin, begun.first_segment))
        except BaseException:
            await self._project_users.release_if_unused(spec.project_id)
            raise
        return begun.origin

    async def clone(self, new_volume: NewVolume, parent: VolumeId | None, install: Install) -> VolumeStart:
        if parent is None:
            return await self._clone_template(new_volume, install)
        record = await asyncio.to_thread(self._checked_parent, parent, install)
        async with self._locks.lock(parent):
            sockets = await self._running.await_volume_sockets(parent)
            if sockets is None:
                return await self._clone_stopped(new_volume, parent, record)
            if await asyncio.to_thread(standby_files.has_signal, self._volumes.folder(parent).data):
                return await self._clone_read_only(new_volume, parent, sockets)
        return await self._clone_running(new_volume, parent, sockets, install)

    async def _clone_template(self, made: NewVolume, install: Install) -> VolumeStart:
        template = await run_shielded(lambda: self._templates.ensure(install))
        found = await self._volumes.run_blocking(
            lambda: _clone_whole(made, template, template / "pg_wal"), made.project_id
        )
        return VolumeStart(Origin(), found.reads_from, found.reads_from)

    async def _clone_stopped(
        self, made: NewVolume, parent: VolumeId, record: VolumeRecord, point: Point = HEAD
    ) -> VolumeStart:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        await run_shielded(lambda: process.clean_up_after_crash(data, source_wal))
        found = await self._volumes.run_blocking(lambda: _clone_whole(made, data, source_wal), made.project_id)
        if found.control is None:
            origin, first = origins.from_unopened_copy(record.origin), record.first_segment
        else:
            origin = await asyncio.to_thread(origins.from_control_file, made.data, found.control)
            first = found.reads_from
        return VolumeStart(replace(origin, at=point.at or origin.at), found.reads_from, first)

    async def _clone_read_only(self, made: NewVolume, parent: VolumeId, sockets: Path) -> VolumeStart:
        """After the one checkpoint that it has to make, none of its files changes any more."""
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        async with session.open_session(sockets) as ours:
            await ours.execute("checkpoint")
            subscribes = await ours.has_subscriptions()
        found = await self._volumes.run_blocking(lambda: _clone_whole(made, data, source_wal), made.project_id)
        lsn = found.control.checkpoint if found.control else None
        return VolumeStart(
            Origin(lsn=lsn, at=clock.now(), has_subscriptions=subscribes), found.reads_from, found.reads_from
        )

    async def _clone_running(self, made: NewVolume, parent: VolumeId, sockets: Path, install: Install) -> VolumeStart:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.pg_wal_path(parent)
        async with session.open_session(sockets) as ours:
            async with commit_continuously(data, source_wal):
                first = await ours.start_backup(install.major)
            await self._work(lambda: made.clone(data), made.project_id)
            # Before and after: what comes or goes in between may be in the copy.
            subscribed = await ours.has_subscriptions()
            end = await ours.stop_backup(install.major)
            origin = origins.from_backup(end, subscribes=subscribed or await ours.has_subscriptions())
            # In the session: with it goes what keeps the segments.
            await self._work(lambda: _add_backup(made, source_wal, first, end), made.project_id)
        # With the backup its segment ended. What a server reads that recovers by a label it does not archive.
        return VolumeStart(origin, first, wal.next_segment(end.last_segment))

    async def _work(self, blocking: Callable[[], None], project: ProjectId) -> None:
        """In a session, where an error of the disk would be taken for one of the session."""
        with translate_os_errors():
            await self._volumes.run_blocking(blocking, project)

    def _checked_parent(self, parent: VolumeId, install: Install) -> VolumeRecord:
        record = self._volumes.folder(parent).read_record()
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The parent branch is still being made.")
        self._volumes.folder(parent).check_not_archived()
        if record.install != install.id:
            raise EngineError(
                f"The parent branch was made by {record.install}, and a branch of it cannot use {install.id}.",
                transient=False,
            )
        return record


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found in a data folder that was cloned."""

    control: ControlFile | None  # how the server ended; None when none has opened it yet
    reads_from: str


def _clone_whole(made: NewVolume, source: Path, source_wal: Path) -> _Found:
    made.clone(source)
    label = backup_label.read_pending_label(source)
    if label is None:
        control = made.clone_needed_wal(source_wal)
        return _Found(control, control.first_segment)
    return _Found(None, _hand_on_backup(made, source_wal, label))


def _hand_on_backup(made: NewVolume, source_wal: Path, label: str) -> str:
    """The source is a copy itself, by which no server has recovered yet: so will its copy."""
    first = parse_first_segment(label)
    if first is None:
        raise EngineError("The parent branch's backup label is broken.", transient=False)
    made.clone_wal_from(source_wal, first)
    made.write_file(LABEL_FILE, label)
    return first


def _add_backup(made: NewVolume, source_wal: Path, first: str, end: BackupEnd) -> None:
    try:
        made.clone_wal(source_wal, wal.segment_names(first, end.last_segment))
    except (FileNotFoundError, ValueError) as error:
        raise EngineError("The parent branch writes faster than it can be copied: its WAL was recycled.") from error
    made.write_file(LABEL_FILE, end.label)
