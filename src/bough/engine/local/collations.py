"""Check the indexes of computes that run on another build than the last time they were checked.

Another build may have other versions of ICU and of the C library, which sort text differently.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bough import log
from bough.engine.local.computes.query_results import is_utf8
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.durable_files import write_atomically
from bough.engine.local.volumes.build_use import CHECKED_FILE as FILE
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, IndexToRebuild
from bough.ids import EndpointId, VolumeId
from bough.postgres import collations, output_plugins

_MAX_DATABASES = 50
_AT_ONCE = 4  # computes checked in one run

logger = log.get_logger(component="engine")


class CollationChecks:
    def __init__(self, running: RunningComputes, volumes: Volumes) -> None:
        self._running = running
        self._volumes = volumes
        self._checked: dict[EndpointId, str] = {}  # endpoint → install

    async def run(self) -> None:
        runs = [run for run in await self._running.list_runs() if not is_spare(run.endpoint_id)]
        self._checked = {run.endpoint_id: self._checked.get(run.endpoint_id, "") for run in runs}
        due = [run for run in runs if self._checked[run.endpoint_id] != run.install]
        for run in due[:_AT_ONCE]:
            try:
                await self._check(run)
            except EngineError as error:
                logger.info("collations_not_checked", endpoint_id=run.endpoint_id, reason=error.public_message)
            self._checked[run.endpoint_id] = run.install

    def list_indexes(self) -> Mapping[VolumeId, tuple[IndexToRebuild, ...]]:
        """Blocks."""
        found = {
            VolumeId(path.parent.name): _read(path).indexes
            for path in self._volumes.list_files(FILE)
            if not is_spare(path.parent.name)
        }
        return {volume: indexes for volume, indexes in found.items() if indexes}

    async def _check(self, run: ComputeRun) -> None:
        folder = self._volumes.folder(run.volume_id)
        record = await asyncio.to_thread(folder.read_record)
        if (
            record is None
            or record.is_replica
            or record.major < collations.FIRST_MAJOR
            or is_temporary(run.endpoint_id)
        ):
            return
        before = await asyncio.to_thread(_read, folder.path / FILE)
        if _was_checked(before, record, run.install):
            return
        sockets = await self._running.find_sockets(run.endpoint_id)
        if sockets is None:
            return
        indexes = tuple(await _find_indexes(sockets, record.major))
        if indexes:
            logger.warning("indexes_need_reindex", endpoint_id=run.endpoint_id, count=len(indexes))
        await asyncio.to_thread(_write, folder.path / FILE, _Checked(run.install, indexes))


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the file says: the install that was checked last, and the indexes found then."""

    install: str
    indexes: tuple[IndexToRebuild, ...]


def _was_checked(before: _Checked, record: VolumeRecord, install: str) -> bool:
    """A volume without a file was created with the install of its template. Indexes found are looked at again."""
    return (before.install or record.template) == install and not before.indexes


async def _find_indexes(sockets: Path, major: int) -> list[IndexToRebuild]:
    async with open_session(sockets) as session:
        rows = await session.fetch(output_plugins.SELECT_DATABASES)
    names = [row["name"] for row in rows if row["allows_connections"] and is_utf8(row["name"])]
    found: list[IndexToRebuild] = []
    for name in names[:_MAX_DATABASES]:
        database = name.decode()
        async with open_session(sockets, database, major) as session:
            found += await _find_in_database(session, database)
    return found


async def _find_in_database(session: ComputeSession, database: str) -> list[IndexToRebuild]:
    rows = await session.fetch(collations.SELECT_INDEXES)
    return [
        IndexToRebuild(
            database=database,
            index=f"{row['schema'].decode(errors='replace')}.{row['name'].decode(errors='replace')}",
            statement=collations.reindex_statement(
                row["schema"].decode(errors="replace"), row["name"].decode(errors="replace")
            ),
        )
        for row in rows
    ]


def _read(path: Path) -> _Checked:
    try:
        fields = json.loads(path.read_text())
        return _Checked(fields["install"], tuple(IndexToRebuild(**each) for each in fields["indexes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return _Checked("", ())


def _write(path: Path, checked: _Checked) -> None:
    fields = {"install": checked.install, "indexes": [asdict(each) for each in checked.indexes]}
    write_atomically(path, json.dumps(fields))
