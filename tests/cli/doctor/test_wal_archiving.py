"""The doctor's check of WAL archiving."""

import asyncio
from pathlib import Path

import pytest

from bough.cli.doctor import wal_archiving
from bough.cli.doctor.finding import Verdict
from bough.config import Settings
from bough.control.platform import history_problems
from bough.control.platform.history_problems import HistoryProblem
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.ids import ProjectId
from bough.postgres import wal
from support.postgres import PostgresServer
from support.stores import add_project, make_project, open_store

MB = 1024**2


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", history_alarm_bytes=16 * MB)


def create_volume(settings: Settings, name: str, waiting: int) -> None:
    """Creates a volume as its server left it, with this number of unarchived segments."""
    folder = VolumeFolder(settings.home / "volumes" / name, settings.home / "pg_wal" / name)
    folder.path.parent.mkdir(parents=True, exist_ok=True)
    folder.create(VolumeRecord(project_id=ProjectId("p"), template="debian-17.12"))
    status_folder = folder.data / "pg_wal" / "archive_status"
    status_folder.mkdir(parents=True)
    for number in range(waiting):
        (status_folder / f"{wal.segment_name_from_number(1, number)}.ready").touch()
    (status_folder / f"{wal.segment_name_from_number(1, waiting)}.done").touch()


def make_problem(volume: str, **fields: object) -> HistoryProblem:
    defaults = {"project_id": "cool-sea-1", "branch_id": "br-a", "waiting_bytes": 300 * MB, "trouble": "It is full."}
    return HistoryProblem(volume_id=volume, **{**defaults, **fields})  # type: ignore[arg-type]


def test_a_home_without_trouble(settings: Settings) -> None:
    assert wal_archiving.check_archiving(settings).verdict is Verdict.OK
    create_volume(settings, "vol-a", 16 * MB // wal.SEGMENT_BYTES - 1)
    finding = wal_archiving.check_archiving(settings)
    assert (finding.verdict, finding.message) == (Verdict.OK, "WAL archiving keeps up")


def test_what_waits_on_the_disk_is_found_while_nobody_runs(settings: Settings) -> None:
    create_volume(settings, "vol-a", 16 * MB // wal.SEGMENT_BYTES)
    finding = wal_archiving.check_archiving(settings)
    assert finding.verdict is Verdict.WARNING
    assert "is 16 MB behind" in finding.message
    assert "bough logs" in finding.fix
    assert "docs/runbooks/archiving-fails.md" in finding.fix


def test_what_the_platform_noted_is_told_with_its_reason(settings: Settings) -> None:
    settings.home.mkdir()
    history_problems.write(settings, [make_problem("vol-a"), make_problem("vol-b", waiting_bytes=0, branch_id=None)])
    finding = wal_archiving.check_archiving(settings)
    assert finding.verdict is Verdict.WARNING
    assert finding.message == (
        "WAL archiving of branch br-a of project cool-sea-1 is 300 MB behind: It is full. "
        "WAL archiving of branch ? of project cool-sea-1 is behind: It is full."
    )
    history_problems.write(settings, [])
    assert wal_archiving.check_archiving(settings).verdict is Verdict.OK


def test_only_the_worst_are_named(settings: Settings) -> None:
    settings.home.mkdir()
    problems = [make_problem(f"vol-{each}", branch_id=f"br-{each}", waiting_bytes=each * MB) for each in range(20)]
    history_problems.write(settings, problems)
    message = wal_archiving.check_archiving(settings).message
    assert [f"br-{each} " in message for each in range(20)] == [False] * 15 + [True] * 5
    assert message.endswith("15 more are behind.")


async def test_branches_have_their_names(settings: Settings, postgres_server: PostgresServer) -> None:
    settings.home.mkdir()
    async with open_store("sqlite", settings.home, postgres_server) as store:
        branch, _ = await add_project(store, make_project(name="shop"))
    history_problems.write(
        settings, [make_problem(branch.volume_id, branch_id=branch.id, project_id=branch.project_id)]
    )
    finding = await asyncio.to_thread(wal_archiving.check_archiving, settings)
    assert f"branch main ({branch.id}) of project shop ({branch.project_id})" in finding.message
