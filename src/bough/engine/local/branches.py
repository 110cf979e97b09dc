"""Making a branch's volume: from the warm pool, from the template, or from another branch.

A branch whose compute runs is copied as a backup is: between two statements, with the WAL that was
written meanwhile. The compute goes on serving, and the copy recovers to one moment when it starts.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.computes import labels, process, session
from bough.engine.local.computes.living import Living
from bough.engine.local.installs.installs import Install
from bough.engine.local.owners import Owners
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import NewVolume, Volumes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec
from bough.ids import VolumeId
from bough.postgres import wal
from bough.postgres.backup import LABEL_FILE, BackupEnd, first_segment


class Branches:
    def __init__(self, volumes: Volumes, templates: Templates, living: Living, owners: Owners, locks: Locks) -> None:
        self._volumes = volumes
        self._templates = templates
        self._living = living
        self._owners = owners
        self._locks = locks  # of volumes: a parent that sleeps must not wake while it is copied

    async def make(self, spec: BranchSpec, install: Install) -> None:
        """The volume, which does not exist. After a failure nothing of it does."""
        try:
            await self._make(spec, install)
        except BaseException:
            await self._owners.release_when_empty(spec.project_id)
            raise

    async def _make(self, spec: BranchSpec, install: Install) -> None:
        record = VolumeRecord(project_id=spec.project_id, install=install.id, parent=spec.parent)
        async with (
            self._owners.of(spec.project_id) as owner,
            self._volumes.new(spec.volume_id, record, owner) as made,
        ):
            if spec.parent is None:
                await self._clone_template(made, install)
            else:
                await self._clone_branch(made, spec.parent, install)

    async def _clone_template(self, made: NewVolume, install: Install) -> None:
        template = await unbroken(lambda: self._templates.ensure(install))
        await self._clone_stopped(made, template, template / "pg_wal")

    async def _clone_branch(self, made: NewVolume, parent: VolumeId, install: Install) -> None:
        source = self._volumes.folder(parent)
        await asyncio.to_thread(self._check_parent, parent, install)
        async with self._locks.of(parent):
            if not await self._living.serves(parent):
                await unbroken(lambda: process.clear_away(source.data))
                await self._clone_stopped(made, source.data, self._volumes.wal(parent))
                return
        await self._clone_running(made, parent, install)

    async def _clone_stopped(self, made: NewVolume, source: Path, source_wal: Path) -> None:
        await self._volumes.work(lambda: _clone_whole(made, source, source_wal))

    async def _clone_running(self, made: NewVolume, parent: VolumeId, install: Install) -> None:
        sockets = await self._living.sockets_of(parent)
        if sockets is None:
            raise EngineError("The parent branch's compute is starting or stopping.")
        data, source_wal = self._volumes.folder(parent).data, self._volumes.wal(parent)
        async with session.opened(sockets) as ours:
            first = await ours.begin_backup(install.major)
            await self._work(lambda: made.clone(data))
            end = await ours.end_backup(install.major)
            # In the session: with it goes what keeps the segments.
            await self._work(lambda: _add_backup(made, source_wal, first, end))

    async def _work(self, blocking: Callable[[], None]) -> None:
        """In a session, where an error of the disk would be taken for one of the session."""
        with machine_refusals():
            await self._volumes.work(blocking)

    def _check_parent(self, parent: VolumeId, install: Install) -> None:
        record = self._volumes.folder(parent).read()
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        if record.install != install.id:
            raise EngineError(
                f"The parent branch was made by {record.install}, and a branch of it cannot use {install.id}.",
                transient=False,
            )


def _clone_whole(made: NewVolume, source: Path, source_wal: Path) -> None:
    made.clone(source)
    label = labels.waiting(source)
    if label is None:
        made.clone_needed_wal(source_wal)
    else:
        _hand_on_backup(made, source_wal, label)


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
