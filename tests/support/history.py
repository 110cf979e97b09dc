"""Reads and changes the history of a home's volumes directly, as the engine's own parts do."""

from pathlib import Path

from bough.engine.local.engine import LocalEngine
from bough.engine.local.history import retirement
from bough.engine.local.history.ancestry import Ancestry, LineageReader
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.volumes.folder import VolumeRecord
from bough.ids import VolumeId
from bough.postgres import wal
from support.engine_home import Compute


def wal_archives(engine: LocalEngine) -> WalArchives:
    return WalArchives(engine._components.volumes)


def archive_folder(compute: Compute) -> Path:
    return compute.home.engine._components.volumes.wal_archive_path(compute.spec.volume_id)


def list_archived_wal(compute: Compute) -> set[str]:
    """Return the names of archived segments and timeline history files."""
    return wal_archives(compute.home.engine).list_wal_files(compute.spec.volume_id)


def list_archived_segments(compute: Compute) -> list[str]:
    return sorted(filter(wal.is_segment, list_archived_wal(compute)))


def list_unarchived(compute: Compute) -> list[str]:
    """Return the names of WAL files that wait to be archived."""
    engine = compute.home.engine
    return wal_archives(engine).list_unarchived_names(engine._components.volumes.folder(compute.spec.volume_id))


def read_volume_record(compute: Compute) -> VolumeRecord:
    record = wal_archives(compute.home.engine).read_record(compute.spec.volume_id)
    assert record is not None
    return record


def list_bases(compute: Compute) -> list[Base]:
    return _bases(compute.home.engine).list_bases(compute.spec.volume_id)


async def take_base(compute: Compute) -> Base | None:
    """Take a base, as the engine does when one is due."""
    record = read_volume_record(compute)
    return await _bases(compute.home.engine).take(compute.spec.volume_id, record)


def hide_base(engine: LocalEngine, base: Base) -> None:
    _bases(engine).hide(base)


def read_ancestry(compute: Compute) -> Ancestry:
    engine = compute.home.engine
    reader = LineageReader(wal_archives(engine), _bases(engine), engine._components.templates)
    return reader.read(compute.spec.volume_id)


def archive_remaining_wal(engine: LocalEngine, volume: VolumeId) -> None:
    """Do the first step of retiring a volume."""
    retirement.archive_remaining_wal(engine._components.volumes, wal_archives(engine), volume)


def write_retired_record(engine: LocalEngine, volume: VolumeId, record: VolumeRecord) -> None:
    """Do the second step of retiring a volume."""
    wal_archives(engine).write_retired_record(volume, record)


def _bases(engine: LocalEngine) -> Bases:
    return Bases(
        engine._components.volumes,
        engine._components.branch_volumes,
        engine._components.running,
        engine._components.project_users,
    )
