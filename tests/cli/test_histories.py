"""The doctor's look at what is kept to go back to."""

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


def a_volume(settings: Settings, name: str, waiting: int) -> None:
    """As its server left it, with so many segments that are to be archived."""
    folder = VolumeFolder(settings.home / "volumes" / name, settings.home / "pg_wal" / name)
    folder.path.parent.mkdir(parents=True, exist_ok=True)
    folder.create(VolumeRecord(project_id=ProjectId("p"), install="17"))
    marks = folder.data / "pg_wal" / "archive_status"
    marks.mkdir(parents=True)
    for number in range(waiting):
        (marks / f"{wal.segment_name_from_number(1, number)}.ready").touch()
    (marks / f"{wal.segment_name_from_number(1, waiting)}.done").touch()


def a_note(volume: str, **fields: object) -> HistoryProblem:
    known = {"project_id": "cool-sea-1", "branch_id": "br-a", "waiting_bytes": 300 * MB, "trouble": "It is full."}
    return HistoryProblem(volume_id=volume, **{**known, **fields})  # type: ignore[arg-type]


def test_a_home_without_trouble(settings: Settings) -> None:
    assert wal_archiving.check_archiving(settings).verdict is Verdict.OK
    a_volume(settings, "vol-a", 16 * MB // wal.SEGMENT_BYTES - 1)
    found = wal_archiving.check_archiving(settings)
    assert (found.verdict, found.sentence) == (Verdict.OK, "archiving keeps up")


def test_what_waits_on_the_disk_is_found_while_nobody_runs(settings: Settings) -> None:
    a_volume(settings, "vol-a", 16 * MB // wal.SEGMENT_BYTES)
    found = wal_archiving.check_archiving(settings)
    assert found.verdict is Verdict.WARNING
    assert "16 MB of WAL wait to be archived" in found.sentence
    assert "bough logs" in found.mend
    assert "docs/runbooks/archiving-fails.md" in found.mend


def test_what_the_platform_noted_is_told_with_its_reason(settings: Settings) -> None:
    settings.home.mkdir()
    history_problems.write(settings, [a_note("vol-a"), a_note("vol-b", waiting_bytes=0, branch_id=None)])
    found = wal_archiving.check_archiving(settings)
    assert found.verdict is Verdict.WARNING
    assert found.sentence == (
        "The history of branch br-a of project cool-sea-1 falls behind, 300 MB of WAL wait to be archived: It is full. "
        "The history of branch ? of project cool-sea-1 falls behind: It is full."
    )
    history_problems.write(settings, [])
    assert wal_archiving.check_archiving(settings).verdict is Verdict.OK


def test_only_the_worst_are_named(settings: Settings) -> None:
    settings.home.mkdir()
    notes = [a_note(f"vol-{each}", branch_id=f"br-{each}", waiting_bytes=each * MB) for each in range(20)]
    history_problems.write(settings, notes)
    sentence = wal_archiving.check_archiving(settings).sentence
    assert [f"br-{each} " in sentence for each in range(20)] == [False] * 15 + [True] * 5
    assert sentence.endswith("So it is with 15 more.")


async def test_branches_have_their_names(settings: Settings, postgres_server: PostgresServer) -> None:
    settings.home.mkdir()
    async with open_store("sqlite", settings.home, postgres_server) as store:
        branch, _ = await add_project(store, make_project(name="shop"))
    history_problems.write(settings, [a_note(branch.volume_id, branch_id=branch.id, project_id=branch.project_id)])
    found = await asyncio.to_thread(wal_archiving.check_archiving, settings)
    assert f"branch main ({branch.id}) of project shop ({branch.project_id})" in found.sentence
