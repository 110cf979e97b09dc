"""Making a branch's volume: from the warm pool, from the template, or from another branch.

A branch whose compute runs is copied as a backup is: between two statements, with the WAL that was
written meanwhile. The compute goes on serving, and the copy recovers to one moment when it starts.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bough import clock
from bough.engine.local import origins
from bough.engine.local.computes import labels, process, session, standbys
from bough.engine.local.computes.living import Living
from bough.engine.local.installs.installs import Install
from bough.engine.local.owners import Owners
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.commits import small_commits
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import NewVolume, Volumes
from bough.engine.port import EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import VolumeId
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
        try:
            return await self._make(spec, install)
        except BaseException:
            await self._owners.release_when_empty(spec.project_id)
            raise

    async def _make(self, spec: BranchSpec, install: Install) -> Origin:
        record = VolumeRecord(
            project_id=spec.project_id, install=install.id, parent=spec.parent, is_replica=spec.is_replica
        )
        async with (
            self._owners.of(spec.project_id) as owner,
            self._volumes.new(spec.volume_id, record, owner) as made,
        ):
            if spec.parent is None:
                origin = await self._clone_template(made, install)
            else:
                origin = await self._clone_branch(made, spec.parent, install)
            await unbroken(lambda: made.note(origin))
        return origin

    async def _clone_template(self, made: NewVolume, install: Install) -> Origin:
        template = await unbroken(lambda: self._templates.ensure(install))
        await self._volumes.work(lambda: _clone_whole(made, template, template / "pg_wal"))
        return Origin()

    async def _clone_branch(self, made: NewVolume, parent: VolumeId, install: Install) -> Origin:
        record = await asyncio.to_thread(self._checked_parent, parent, install)
        async with self._locks.of(parent):
            sockets = await self._living.settled(parent)
            if sockets is None:
                return await self._clone_stopped(made, parent, record.origin)
            if await asyncio.to_thread(standbys.is_marked, self._volumes.folder(parent).data):
                return await self._clone_still(made, parent, sockets)
        return await self._clone_running(made, parent, sockets, install)

    async def _clone_stopped(self, made: NewVolume, parent: VolumeId, its_origin: Origin) -> Origin:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        await unbroken(lambda: process.clear_away(data))
        control = await self._volumes.work(lambda: _clone_whole(made, data, source_wal))
        if control is None:
            return origins.of_unopened(its_origin)
        return await asyncio.to_thread(origins.of_stopped, made.data, control)

    async def _clone_still(self, made: NewVolume, parent: VolumeId, sockets: Path) -> Origin:
        """After the one checkpoint that it has to make, none of its files changes any more."""
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        async with session.opened(sockets) as ours:
            await ours.run("checkpoint")
            subscribes = await ours.subscribes()
        control = await self._volumes.work(lambda: _clone_whole(made, data, source_wal))
        return Origin(lsn=control.checkpoint if control else None, at=clock.now(), subscribes=subscribes)

    async def _clone_running(self, made: NewVolume, parent: VolumeId, sockets: Path, install: Install) -> Origin:
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        async with session.opened(sockets) as ours:
            async with small_commits(data, source_wal):
                first = await ours.begin_backup(install.major)
            await self._work(lambda: made.clone(data))
            # Before and after: what comes or goes in between may be in the copy.
            subscribed = await ours.subscribes()
            end = await ours.end_backup(install.major)
            origin = origins.of_running(end, subscribes=subscribed or await ours.subscribes())
            # In the session: with it goes what keeps the segments.
            await self._work(lambda: _add_backup(made, source_wal, first, end))
        return origin

    async def _work(self, blocking: Callable[[], None]) -> None:
        """In a session, where an error of the disk would be taken for one of the session."""
        with machine_refusals():
            await self._volumes.work(blocking)

    def _checked_parent(self, parent: VolumeId, install: Install) -> VolumeRecord:
        record = self._volumes.folder(parent).read()
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        if record.install != install.id:
            raise EngineError(
                f"The parent branch was made by {record.install}, and a branch of it cannot use {install.id}.",
                transient=False,
            )
        return record


def _clone_whole(made: NewVolume, source: Path, source_wal: Path) -> ControlFile | None:
    """How the server ended; None when none has opened the source yet."""
    made.clone(source)
    label = labels.waiting(source)
    if label is None:
        return made.clone_needed_wal(source_wal)
    _hand_on_backup(made, source_wal, label)
    return None


def _hand_on_backup(made: NewVolume, source_wal: Path, label: str) -> None:
    """The source is a copy itself, by which no server has recovered yet: so will its copy."""
    first = first_segment(label)
    if first is None:
        raise EngineError("The parent branch's backup label is broken.", transient=False)
    made.clone_wal(source_wal, wal.needed_from(first, (path.name for path in source_wal.iterdir())))
    made.write(LABEL_FILE, label)


def _add_backup(made: NewVolume, source_wal: Path, first: str, end: BackupEnd) -> None:
    try:
        made.clone_wal(source_wal, wal.segment_names(first, end.last_segment))
    except (FileNotFoundError, ValueError) as error:
        raise EngineError("The parent branch writes faster than it can be copied: its WAL was recycled.") from error
    made.write(LABEL_FILE, end.label)
