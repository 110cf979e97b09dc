"""A user id for every project: lent once on a host, given back with the last volume."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.folders import Folders, check_traversable
from bough.engine.local.uids import Uids
from bough.engine.port import EngineError
from bough.ids import EndpointId, ProjectId, VolumeId
from engine.homes import Home, branch_of, home_folder
from requires import require_root

RANGE = (310_000, 310_004)  # no other home on this machine uses it


@pytest.fixture
def two_homes() -> Iterator[list[Settings]]:
    require_root()
    with ExitStack() as stack:
        homes = [stack.enter_context(home_folder(project_uids=RANGE)) for _ in range(2)]
        for home in homes:
            Folders(home).ensure()
        yield homes


def test_each_project_has_its_own_and_keeps_it(two_homes: list[Settings]) -> None:
    uids = Uids(two_homes[0])
    first, second = ProjectId.new(), ProjectId.new()
    assert (uids.ensure(first), uids.ensure(second)) == (310_000, 310_001)
    assert Uids(two_homes[0]).ensure(first) == 310_000
    assert (two_homes[0].home / "uids" / "310000").readlink() == Path(first)


def test_two_homes_never_lend_the_same(two_homes: list[Settings]) -> None:
    ours, theirs = map(Uids, two_homes)
    assert ours.ensure(ProjectId.new()) == 310_000
    assert theirs.ensure(ProjectId.new()) == 310_001
    assert ours.ensure(ProjectId.new()) == 310_002


def test_a_released_one_leaves_nothing_in_shared_memory(two_homes: list[Settings]) -> None:
    uids, project = Uids(two_homes[0]), ProjectId.new()
    left = Path(f"/dev/shm/PostgreSQL.test-{project}")
    left.touch(mode=0o600)
    os.chown(left, uids.ensure(project), 0)
    uids.release(project)
    assert not left.exists()


def test_a_released_one_is_lent_again(two_homes: list[Settings]) -> None:
    uids = Uids(two_homes[0])
    gone = ProjectId.new()
    uids.ensure(gone)
    uids.release(gone)
    uids.release(gone)
    assert uids.ensure(ProjectId.new()) == 310_000


def test_none_left_is_a_sentence(two_homes: list[Settings]) -> None:
    uids = Uids(two_homes[0])
    for _ in range(4):
        uids.ensure(ProjectId.new())
    with pytest.raises(EngineError, match="widen the setting project_uids"):
        uids.ensure(ProjectId.new())


def test_the_host_is_told_again_after_a_boot(two_homes: list[Settings]) -> None:
    ours, theirs = map(Uids, two_homes)
    uid = ours.ensure(ProjectId.new())
    claim = two_homes[0].sockets.parent / "uids" / str(uid)
    claim.unlink()
    ours.ensure_claimed()
    assert claim.is_symlink()
    claim.unlink()
    assert theirs.ensure(ProjectId.new()) == uid
    with pytest.raises(EngineError, match=f"User id {uid} of project .* is also used by {two_homes[1].home}"):
        ours.ensure_claimed()


def test_a_closed_folder_on_the_way_is_named(open_folder: Path) -> None:
    closed = open_folder / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(EngineError, match=f"cannot pass {closed}: run `chmod o\\+x {closed}`"):
        check_traversable(closed / "home")


def test_a_socket_path_too_long_for_postgres_is_refused(settings: Settings) -> None:
    folders = Folders(settings)
    folders.sockets = Path("/tmp") / ("x" * 80)
    with pytest.raises(EngineError, match="longer than Postgres allows"):
        folders.socket_folder(EndpointId.new())


async def test_the_last_volume_takes_the_projects_user_with_it(home: Home) -> None:
    require_root()
    first = await home.branch()
    project = first.spec.project_id
    second = await home.branch(project_id=project)
    assert first.data.stat().st_uid == second.data.stat().st_uid
    await first.absent()
    assert _lent_to(home, project)
    await second.absent()
    await second.absent()
    assert not _lent_to(home, project)


async def test_two_projects_have_different_users(home: Home) -> None:
    require_root()
    first, second = await home.branch(), await home.branch()
    assert first.data.stat().st_uid != second.data.stat().st_uid


async def test_a_project_that_comes_back_at_once_has_a_user(home: Home) -> None:
    require_root()
    first = await home.branch()
    await first.absent()
    spec = first.spec
    again = await home.branch(project_id=spec.project_id, volume_id=VolumeId.new())
    await home.engine.ensure_branch(branch_of(again.spec))
    assert _lent_to(home, spec.project_id)


def _lent_to(home: Home, project: ProjectId) -> bool:
    return any(str(link.readlink()) == project for link in (home.settings.home / "uids").iterdir())
