"""Rule 2: links in tenants' folders are not followed, pipes are not waited for, huge files are not read, and long work
for one tenant leaves threads to others.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.config import Settings
from bough.engine.local import tenant_files
from bough.engine.local.folders import Folders
from bough.engine.local.isolation import uid_cleanup
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.volumes import file_copy, tree_copy
from bough.engine.port import EngineError, Readiness
from security.planted_files import (
    KINDS,
    SPARSE,
    count_bytes_read,
    plant_deep_folder,
    plant_file,
    plant_link,
    release_pipe_readers,
    run_as_tenant,
)
from support import branches
from support.engine_home import DRIVER_PARAMS, Compute, EngineHome, home_on_driver, temporary_home
from support.platform import open_platform
from support.requirements import require_root

TIMEOUT = 60  # seconds; work that takes longer counts as blocked
MAX_READ_BYTES = 128 * 1024**2  # bytes; cloning a new branch reads a fifth of that
SECRET = b"the neighbour's secret"


@pytest.fixture(scope="module", params=DRIVER_PARAMS)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    require_root()
    with home_on_driver(request.param) as settings:
        yield settings


@pytest.fixture(scope="module")
def plain_settings() -> Iterator[Settings]:
    require_root()
    with temporary_home(storage="plain") as settings:
        yield settings


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        with release_pipe_readers(settings.home, TIMEOUT):
            yield opened


@pytest.fixture
async def plain_home(plain_settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(plain_settings) as opened:
        yield opened


def owner_uid(compute: Compute) -> int:
    return compute.data_folder.stat().st_uid


async def expect_child_error(home: EngineHome, parent: Compute) -> EngineError:
    """Creates a child branch, which must fail permanently and leave no files; returns the error."""
    volumes_before = set(parent.volume_folder.parent.iterdir())
    read_before = count_bytes_read()
    with pytest.raises(EngineError) as error:
        async with asyncio.timeout(TIMEOUT):
            await home.create_child(parent)
    assert count_bytes_read() - read_before < MAX_READ_BYTES
    assert not error.value.transient
    assert set(parent.volume_folder.parent.iterdir()) == volumes_before
    home.computes.pop()
    return error.value


@pytest.mark.parametrize("kind", KINDS)
async def test_a_control_file_that_is_none_ends_the_branch_with_a_sentence(home: EngineHome, kind: str) -> None:
    parent = await home.create_branch()
    plant_file(kind, parent.data_folder / "global" / "pg_control", owner_uid(parent))
    assert "global/pg_control" in (await expect_child_error(home, parent)).public_message
    async with asyncio.timeout(TIMEOUT):
        assert await home.engine.measure_volume(parent.spec.volume_id) is not None
        assert await home.engine.read_wal_end(parent.spec.volume_id) is None


async def test_pipes_of_some_tenants_keep_nobody_else_from_branches_and_projects(home: EngineHome) -> None:
    attackers = [await home.create_branch() for _ in range(4)]
    other = await home.create_branch()
    for parent in attackers:
        plant_file("link to a pipe", parent.data_folder / "global" / "pg_control", owner_uid(parent))
    async with asyncio.timeout(TIMEOUT):
        attacks = [asyncio.create_task(home.create_child(parent)) for parent in attackers]
        await asyncio.sleep(0)  # the attacks start first
        await home.create_child(other)
        await home.create_branch()
        outcomes = await asyncio.gather(*attacks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [EngineError] * 4


async def test_a_folder_that_leads_to_a_neighbour_is_not_gone_into(home: EngineHome) -> None:
    victim, parent = await home.create_branch(), await home.create_branch()
    plant_link(parent.data_folder / "global", victim.data_folder / "global", owner_uid(parent))
    assert "global" in (await expect_child_error(home, parent)).public_message


async def test_nothing_of_a_neighbour_comes_into_a_branch(home: EngineHome) -> None:
    victim, parent = await home.create_branch(), await home.create_branch()
    (victim.data_folder / "base" / "secret").write_bytes(SECRET)
    plant_link(parent.data_folder / "base" / "5" / "1259", victim.data_folder / "base" / "secret", owner_uid(parent))
    plant_link(parent.data_folder / "pg_xact", victim.data_folder / "base", owner_uid(parent))
    child = await home.create_child(parent)
    files = [path for path in child.data_folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any(SECRET in path.read_bytes() for path in files)


@pytest.mark.parametrize("kind", ["link to a pipe", "pipe", "huge file"])
async def test_a_label_that_is_none_ends_the_branch_with_a_sentence(home: EngineHome, kind: str) -> None:
    parent = await home.create_branch()
    plant_file(kind, parent.data_folder / "backup_label", owner_uid(parent))
    assert "backup_label" in (await expect_child_error(home, parent)).public_message


async def test_a_pipe_where_we_write_the_label_is_not_waited_for(home: EngineHome) -> None:
    """The copy of a running branch has a label until its server has started; so has a copy of that copy."""
    running = await home.create_compute()
    stopped = await home.create_child(running)
    plant_file("pipe", stopped.data_folder / ".backup_label.new", owner_uid(stopped))
    async with asyncio.timeout(TIMEOUT):
        child = await home.create_child(stopped)
    assert (child.data_folder / "backup_label").is_file()
    assert (child.data_folder / "backup_label").stat().st_uid == owner_uid(child)
    assert await child.start() is Readiness.READY


@pytest.mark.parametrize("kind", ["link to a pipe", "pipe"])
async def test_wal_is_looked_for_where_we_put_it(home: EngineHome, kind: str) -> None:
    """If WAL is outside the data directory, the link in the data directory is not followed."""
    parent = await home.create_branch()
    plant_file(kind, parent.data_folder / "pg_wal", owner_uid(parent))
    is_outside_data = home.engine._components.folders.pg_wal is not None
    async with asyncio.timeout(TIMEOUT):
        if is_outside_data:
            assert await (await home.create_child(parent)).start() is Readiness.READY
        else:
            assert "pg_wal" in (await expect_child_error(home, parent)).public_message


@pytest.mark.parametrize("kind", ["pipe", "huge file"])
async def test_segments_that_are_none_are_not_archived(home: EngineHome, kind: str) -> None:
    """A volume that is retired archives the rest of its WAL; its history can be kept and deleted."""
    parent = await home.create_compute()
    await parent.suspend()
    wal = home.engine._components.volumes.pg_wal_path(parent.spec.volume_id)
    archive = home.engine._components.volumes.wal_archive_path(parent.spec.volume_id)
    segment = "0000000100000000000000F0"
    plant_file(kind, wal / segment, owner_uid(parent))
    plant_file(kind, archive / "0000000100000000000000F1", owner_uid(parent))
    plant_file("folder", archive / ".0000000100000000000000F2.new", owner_uid(parent))
    volume, project = parent.spec.volume_id, parent.spec.project_id
    read_before = count_bytes_read()
    async with asyncio.timeout(TIMEOUT):
        await home.engine.apply_retention(volume, clock.now(), take_bases=False)
        await home.engine.retire_volume(project, volume)
        await home.engine.ensure_absent(project, volume)
    assert count_bytes_read() - read_before < MAX_READ_BYTES
    assert not archive.exists()


@pytest.mark.parametrize("kind", ["link to a pipe", "pipe", "folder", "huge file"])
async def test_a_pid_file_that_is_none_is_nobodys(plain_home: EngineHome, kind: str) -> None:
    home = plain_home
    compute = await home.create_compute()
    await compute.suspend()
    plant_file(kind, compute.data_folder / "postmaster.pid", owner_uid(compute))
    async with asyncio.timeout(TIMEOUT):
        assert await compute.get_address() is None
        assert compute.spec.endpoint_id not in (await home.engine.observe()).running_endpoints
        child = await home.create_child(compute)
        await compute.suspend()
    assert not os.path.lexists(child.data_folder / "postmaster.pid")
    assert await child.start() is Readiness.READY


async def test_a_deep_and_wide_tree_is_refused_and_removed(home: EngineHome, is_long_run: bool) -> None:
    parent = await home.create_branch()
    file_count = 200_000 if is_long_run else 2_000
    run_as_tenant(
        owner_uid(parent), 'cd "$1" && seq -f "w%.0f" "$2" | xargs touch', parent.data_folder / "base", file_count
    )
    plant_deep_folder(parent.data_folder / "base", 1500, owner_uid(parent))
    if home.engine._components.volumes.driver.name != "btrfs":  # a snapshot does not walk the tree
        assert "nest" in (await expect_child_error(home, parent)).public_message
    assert (await home.engine.measure_volume(parent.spec.volume_id) or 0) > 0
    await parent.delete()
    assert not parent.volume_folder.exists()


async def test_more_names_than_a_tree_may_have_are_refused(
    plain_home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await plain_home.create_branch()
    monkeypatch.setattr(tree_copy, "MAX_TREE_ENTRIES", 300)
    assert "more than 300" in (await expect_child_error(plain_home, parent)).public_message


async def test_a_copy_that_takes_too_long_is_given_up(plain_home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = await plain_home.create_branch()
    monkeypatch.setattr(tree_copy, "MAX_COPY_SECONDS", 0.0)
    assert "copying them takes longer than" in (await expect_child_error(plain_home, parent)).public_message


async def test_holes_stay_holes(home: EngineHome) -> None:
    """Copying a sparse file of a tenant allocates no blocks for its holes."""
    parent = await home.create_branch()
    sparse = parent.data_folder / "base" / "5" / "hollow"
    run_as_tenant(owner_uid(parent), 'truncate -s 256M "$1" && printf x >> "$1"', sparse)
    child = await home.create_child(parent)
    copied = child.data_folder / "base" / "5" / "hollow"
    assert copied.stat().st_size == 256 * 1024**2 + 1
    assert copied.stat().st_blocks * 512 < 1024**2
    with copied.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        assert file.read() == b"x"


def test_a_file_that_grows_is_copied_as_far_as_it_was_seen(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"seen")
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb") as target:
        status = os.fstat(source.fileno())
        (tmp_path / "from").write_bytes(b"seen, and more, for ever")
        file_copy.copy_bytes(source.fileno(), target.fileno(), status)
    assert (tmp_path / "to").read_bytes() == b"seen"


async def test_the_operation_says_what_is_wrong_and_others_go_on() -> None:
    """Through the API: the operation fails once, with a message that names the file."""
    require_root()
    async with open_platform() as platform:
        created = await platform.create_ready_project()
        await branches.suspend_compute(platform, created)
        [data] = Folders(platform.settings).volumes.glob("*/data")
        plant_file("link to a sparse file", data / "global" / "pg_control", data.stat().st_uid)
        read_before = count_bytes_read()
        branch = await branches.begin_branch(platform, created)
        await platform.run_operations()
        assert count_bytes_read() - read_before < MAX_READ_BYTES
        operations = {operation.id: operation for operation in await platform.list_operations(created["project"]["id"])}
        operation = operations[branch["operations"][0]["id"]]
        assert operation.status == "failed"
        assert "global/pg_control" in (operation.error or "")
        assert await platform.query(await platform.create_ready_project(), "select 1") == 1


class Gate:
    """Blocks work until it is opened, and counts how much work waits at once."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()
        self._lock = threading.Lock()
        self.waiting = self.max_waiting = 0

    def wait(self) -> None:
        with self._lock:
            self.waiting += 1
            self.max_waiting = max(self.max_waiting, self.waiting)
        self._reached.set()
        assert self._open.wait(TIMEOUT)
        with self._lock:
            self.waiting -= 1

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, TIMEOUT)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


async def test_long_copies_of_one_project_leave_threads_to_others(
    plain_home: EngineHome, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = await plain_home.create_branch(), await plain_home.create_branch()
    parents = [slow, *[await plain_home.create_child(slow) for _ in range(7)]]  # each branch has its own lock
    sources = {parent.data_folder for parent in parents}
    driver = plain_home.engine._components.volumes.driver
    clone = type(driver).clone

    def gated_clone(driver: Any, source: Path, target: Path, owner: Any) -> None:
        if source in sources:
            gate.wait()
        clone(driver, source, target, owner)

    monkeypatch.setattr(type(driver), "clone", gated_clone)
    async with asyncio.timeout(TIMEOUT):
        copies = [asyncio.create_task(plain_home.create_child(parent)) for parent in parents]
        await gate.reached()
        await plain_home.create_child(other)
        await plain_home.create_branch()
        gate.open()
        await asyncio.gather(*copies)
    assert gate.max_waiting == 2


async def test_long_removals_of_one_project_leave_threads_to_others(
    plain_home: EngineHome, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await plain_home.create_branch()
    computes = [slow, *[await plain_home.create_child(slow) for _ in range(3)]]
    other = await plain_home.create_branch()
    names = {compute.volume_folder.name for compute in computes}
    driver = plain_home.engine._components.volumes.driver
    remove = type(driver).remove

    def gated_remove(driver: Any, path: Path, stop_pacing: Any = None) -> None:
        if path.name.removesuffix(".dropping") in names and path.exists():
            gate.wait()
        remove(driver, path, stop_pacing)

    monkeypatch.setattr(type(driver), "remove", gated_remove)
    async with asyncio.timeout(TIMEOUT):
        removals = [asyncio.create_task(compute.delete()) for compute in reversed(computes[1:])]
        await gate.reached()
        await other.delete()
        gate.open()
        await asyncio.gather(*removals)
    assert gate.max_waiting == 1


def test_a_deep_folder_of_a_user_that_goes_is_removed() -> None:
    """Deeply nested folders in a world-writable folder."""
    require_root()
    uid, folder = 254_321, Path("/dev/shm") / f"deep-{os.getpid()}"
    run_as_tenant(uid, 'mkdir "$1"', folder)
    plant_deep_folder(folder, 1500, uid)
    uid_cleanup.remove_files(uid)
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["link to a sparse file", "pipe", "folder", "huge file"])
def test_the_helper_reads_regular_files_within_their_limit(tmp_path: Path, kind: str) -> None:
    """This also holds where everything runs as one user."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 100)
    assert tenant_files.read_file("a/file", tmp_path, 100) == b"x" * 100
    with pytest.raises(TenantFileError, match="more than the 99"):
        tenant_files.read_file("a/file", tmp_path, 99)
    plant_file(kind, tmp_path / "a" / "file", os.geteuid())
    with pytest.raises(TenantFileError):
        tenant_files.read_file("a/file", tmp_path, 100)
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(TenantFileError):
        tenant_files.stat_file("b/file", tmp_path)
    with suppress(FileNotFoundError):
        assert (tmp_path / "a" / "file.aim").stat().st_size in (0, SPARSE)
