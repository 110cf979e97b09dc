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
from bough.engine.local.computes import labels, process, session, standbys
from bough.engine.local.computes.living import Living
from bough.engine.local.installs.installs import Install
from bough.engine.local.origins import Begun
from bough.engine.local.owners import Owners
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.commits import small_commits
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import NewVolume, Volumes
from bough.engine.port import EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal
from bough.postgres.backup import LABEL_FILE, BackupEnd, first_segment
from bough.postgres.control_file import ControlFile


class Branches:
    def __init__(self, volumes: Volumes, templates: Templates, living: Living, owners: Owners, locks: Locks) -> None:
        self._volumes = volumes
        self._templates = templates
        self._living = living
        self._owners = owners
        self._locks = locks  # of volumes: a parent that sleeps must not wake while it is copied

    async def make(self, spec: BranchSpec, install: Install) -> Origin:
        """The volume, which does not exist. After a failure nothing of it does."""
        return await self._made(spec, install, lambda made: self.clone(made, spec.parent, install))

    async def make_of_ended(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin | None:
        """The same at a point of its parent's life after which nothing was written, because it sleeps; None when
        something was, or when nobody knows.
        """
        record = await asyncio.to_thread(self._checked_parent, parent, install)
        async with self._locks.of(parent):
            if await self._living.settled(parent) is not None:
                return None
            if not await asyncio.to_thread(origins.has_ended, self._volumes.folder(parent).data, record, spec.point):
                return None
            return await self._made(spec, install, lambda made: self._clone_stopped(made, parent, record, spec.point))

    async def _made(self, spec: BranchSpec, install: Install, fill: Callable[[NewVolume], Awaitable[Begun]]) -> Origin:
        record = VolumeRecord(
            project_id=spec.project_id,
            install=install.id,
            parent=spec.parent,
            is_replica=spec.is_replica,
            begins_itself=spec.is_snapshot,
        )
        try:
            async with (
                self._owners.of(spec.project_id) as owner,
                self._volumes.new(spec.volume_id, record, owner) as made,
            ):
                begun = await fill(made)
                await unbroken(lambda: made.note(begun.origin, begun.first_segment))
        except BaseException:
            await self._owners.release_when_empty(spec.project_id)
            raise
        return begun.origin

    async def clone(self, made: NewVolume, parent: VolumeId | None, install: Install) -> Begun:
        if parent is None:
            return await self._clone_template(made, install)
        record = await asyncio.to_thread(self._checked_parent, parent, install)
        async with self._locks.of(parent):
            sockets = await self._living.settled(parent)
            if sockets is None:
                return await self._clone_stopped(made, parent, record)
            if await asyncio.to_thread(standbys.is_marked, self._volumes.folder(parent).data):
                return await self._clone_still(made, parent, sockets)
        return await self._clone_running(made, parent, sockets, install)

    async def _clone_template(self, made: NewVolume, install: Install) -> Begun:
        template = await unbroken(lambda: self._templates.ensure(install))
        found = await self._volumes.work(lambda: _clone_whole(made, template, template / "pg_wal"), made.project_id)
        return Begun(Origin(), found.reads_from, found.reads_from)

    async def _clone_stopped(
        self, made: NewVolume, parent: VolumeId, record: VolumeRecord, point: Point = HEAD
    ) -> Begun:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        await unbroken(lambda: process.clear_away(data, source_wal))
        found = await self._volumes.work(lambda: _clone_whole(made, data, source_wal), made.project_id)
        if found.control is None:
            origin, first = origins.of_unopened(record.origin), record.first_segment
        else:
            origin = await asyncio.to_thread(origins.of_stopped, made.data, found.control)
            first = found.reads_from
        return Begun(replace(origin, at=point.at or origin.at), found.reads_from, first)

    async def _clone_still(self, made: NewVolume, parent: VolumeId, sockets: Path) -> Begun:
        """After the one checkpoint that it has to make, none of its files changes any more."""
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        async with session.opened(sockets) as ours:
            await ours.run("checkpoint")
            subscribes = await ours.subscribes()
        found = await self._volumes.work(lambda: _clone_whole(made, data, source_wal), made.project_id)
        lsn = found.control.checkpoint if found.control else None
        return Begun(Origin(lsn=lsn, at=clock.now(), subscribes=subscribes), found.reads_from, found.reads_from)

    async def _clone_running(self, made: NewVolume, parent: VolumeId, sockets: Path, install: Install) -> Begun:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        async with session.opened(sockets) as ours:
            async with small_commits(data, source_wal):
                first = await ours.begin_backup(install.major)
            await self._work(lambda: made.clone(data), made.project_id)
            # Before and after: what comes or goes in between may be in the copy.
            subscribed = await ours.subscribes()
            end = await ours.end_backup(install.major)
            origin = origins.of_running(end, subscribes=subscribed or await ours.subscribes())
            # In the session: with it goes what keeps the segments.
            await self._work(lambda: _add_backup(made, source_wal, first, end), made.project_id)
        # With the backup its segment ended. What a server reads that recovers by a label it does not archive.
        return Begun(origin, first, wal.next_segment(end.last_segment))

    async def _work(self, blocking: Callable[[], None], project: ProjectId) -> None:
        """In a session, where an error of the disk would be taken for one of the session."""
        with machine_refusals():
            await self._volumes.work(blocking, project)

    def _checked_parent(self, parent: VolumeId, install: Install) -> VolumeRecord:
        record = self._volumes.folder(parent).read()
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The parent branch is still being made.")
        self._volumes.folder(parent).check_not_put_away()
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
    label = labels.waiting(source)
    if label is None:
        control = made.clone_needed_wal(source_wal)
        return _Found(control, control.first_segment)
    return _Found(None, _hand_on_backup(made, source_wal, label))


def _hand_on_backup(made: NewVolume, source_wal: Path, label: str) -> str:
    """The source is a copy itself, by which no server has recovered yet: so will its copy."""
    first = first_segment(label)
    if first is None:
        raise EngineError("The parent branch's backup label is broken.", transient=False)
    made.clone_wal_from(source_wal, first)
    made.write(LABEL_FILE, label)
    return first


def _add_backup(made: NewVolume, source_wal: Path, first: str, end: BackupEnd) -> None:
    try:
        made.clone_wal(source_wal, wal.segment_names(first, end.last_segment))
    except (FileNotFoundError, ValueError) as error:
        raise EngineError("The parent branch writes faster than it can be copied: its WAL was recycled.") from error
    made.write(LABEL_FILE, end.label)
