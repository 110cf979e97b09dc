"""A user id for every project: allocated once per host, and released with the project's last volume."""

import grp
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.folders import Folders, check_traversable
from bough.engine.local.isolation import processes, system_users
from bough.engine.local.isolation.project_uids import ProjectUids
from bough.engine.port import EngineError
from bough.ids import EndpointId, ProjectId, VolumeId
from support.attacker import find_interpreter
from support.engine_home import EngineHome, make_branch_spec, temporary_home
from support.requirements import require_root

RANGE = (310_000, 310_004)  # no other home on this machine uses this range


@pytest.fixture
def two_homes() -> Iterator[list[Settings]]:
    require_root()
    with ExitStack() as stack:
        homes = [stack.enter_context(temporary_home(project_uids=RANGE)) for _ in range(2)]
        for home in homes:
            Folders(home).ensure()
        yield homes


def test_each_project_has_its_own_and_keeps_it(two_homes: list[Settings]) -> None:
    uids = ProjectUids(two_homes[0])
    first, second = ProjectId.new(), ProjectId.new()
    assert (uids.ensure(first), uids.ensure(second)) == (310_000, 310_001)
    assert ProjectUids(two_homes[0]).ensure(first) == 310_000
    assert (two_homes[0].home / "uids" / "310000").readlink() == Path(first)


def test_two_homes_never_lend_the_same(two_homes: list[Settings]) -> None:
    own, theirs = map(ProjectUids, two_homes)
    assert own.ensure(ProjectId.new()) == 310_000
    assert theirs.ensure(ProjectId.new()) == 310_001
    assert own.ensure(ProjectId.new()) == 310_002


def test_two_homes_that_lend_at_once_never_lend_the_same(two_homes: list[Settings]) -> None:
    """Two processes start at the same time and allocate many ids each."""
    first, last = 310_100, 310_200
    homes = [home.model_copy(update={"project_uids": (first, last)}) for home in two_homes]
    start, go = os.pipe()
    processes = [
        subprocess.Popen([sys.executable, "-c", ALLOCATE, str(home.home), str(first), str(last)], stdin=start)
        for home in homes
    ]
    for end in (start, go):
        os.close(end)
    assert [process.wait() for process in processes] == [0, 0]
    allocated = [{int(link.name) for link in (home.home / "uids").iterdir()} for home in homes]
    assert [len(each) for each in allocated] == [40, 40]
    assert allocated[0] & allocated[1] == set()


# Both wait for the end of their input, which comes at the same time.
ALLOCATE = """
import sys
from pathlib import Path
from bough.config import Settings
from bough.engine.local.isolation.project_uids import ProjectUids
from bough.ids import ProjectId
uids = ProjectUids(Settings(home=Path(sys.argv[1]), project_uids=(int(sys.argv[2]), int(sys.argv[3]))))
sys.stdin.read()
for _ in range(40):
    uids.ensure(ProjectId.new())
"""


def test_a_released_one_leaves_nothing_on_the_machine(two_homes: list[Settings]) -> None:
    """Processes, files in world-writable folders, and both kinds of shared memory."""
    uids, project = ProjectUids(two_homes[0]), ProjectId.new()
    uid = uids.ensure(project)
    files = [Path(folder) / f"bough-test-{project}" for folder in ("/dev/shm", "/tmp", "/var/tmp")]
    with start_as_user(uid, LEAVE, *map(str, files)):
        assert all((file / "inside").exists() for file in files)
        assert list_segments(uid)
        assert list(processes.list_pids_of_user(uid))
        uids.release(project)
        assert not any(map(os.path.lexists, files))
        assert list_segments(uid) == []
        assert list(processes.list_pids_of_user(uid)) == []


def test_one_whose_home_is_gone_is_lent_again_only_when_nothing_runs_as_it(two_homes: list[Settings]) -> None:
    gone, here = map(ProjectUids, two_homes)
    uid = gone.ensure(ProjectId.new())
    (two_homes[0].home / "uids" / str(uid)).unlink()
    with start_as_user(uid, "print(flush=True); import time; time.sleep(300)"):
        assert here.ensure(ProjectId.new()) == uid + 1
    assert here.ensure(ProjectId.new()) == uid


LEAVE = """
import ctypes, os, sys, time
for path in sys.argv[1:]:
    os.mkdir(path)
    open(path + "/inside", "w").close()
assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0
print(flush=True)
if os.fork() == 0:
    os.setsid()
time.sleep(300)
"""


@contextmanager
def start_as_user(uid: int, program: str, *arguments: str) -> Iterator[None]:
    """A program that runs as the user and has printed a line."""
    command = [find_interpreter(), "-c", program, *arguments]
    with subprocess.Popen(command, user=uid, group=uid, extra_groups=[], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"\n"
        try:
            yield
        finally:
            processes.kill_all_of_user(uid)


def list_segments(uid: int) -> list[str]:
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[7] == str(uid)]


def test_a_released_one_is_lent_again(two_homes: list[Settings]) -> None:
    uids = ProjectUids(two_homes[0])
    gone = ProjectId.new()
    uids.ensure(gone)
    uids.release(gone)
    uids.release(gone)
    assert uids.ensure(ProjectId.new()) == 310_000


def test_none_left_is_a_sentence(two_homes: list[Settings]) -> None:
    uids = ProjectUids(two_homes[0])
    for _ in range(4):
        uids.ensure(ProjectId.new())
    with pytest.raises(EngineError, match="widen the setting project_uids"):
        uids.ensure(ProjectId.new())


def test_the_host_is_told_again_after_a_boot(two_homes: list[Settings]) -> None:
    own, theirs = map(ProjectUids, two_homes)
    uid = own.ensure(ProjectId.new())
    claim = two_homes[0].sockets.parent / "uids" / str(uid)
    claim.unlink()
    own.ensure_claimed()
    assert claim.is_symlink()
    claim.unlink()
    assert theirs.ensure(ProjectId.new()) == uid
    with pytest.raises(EngineError, match=f"User id {uid} of project .* is also used by {two_homes[1].home}"):
        own.ensure_claimed()


def test_the_gateways_user_is_added_once_and_can_do_nothing(tmp_path: Path) -> None:
    require_root()
    name = f"bough-test-{os.getpid()}"
    try:
        for _ in range(2):
            system_users.ensure_user(name, tmp_path / "lock")
        added = pwd.getpwnam(name)
        assert (added.pw_dir, added.pw_shell) == ("/nonexistent", "/usr/sbin/nologin")
        assert grp.getgrgid(added.pw_gid).gr_name == name
        assert system_users.SocketUsers("root", name).gateway_gid == added.pw_gid
    finally:
        subprocess.run(["userdel", name], check=True)
    with pytest.raises(
        EngineError, match=f"needs a user {name}, which cannot be added .*: run `useradd --system .* {name}`"
    ):
        _ = system_users.SocketUsers("root", name).gateway_gid


def test_a_gateways_user_that_cannot_be_added_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_root()
    with pytest.raises(EngineError, match=r"cannot be added \(.*\): run `useradd --system .* a:b`"):
        system_users.ensure_user("a:b", tmp_path / "lock")
    monkeypatch.setattr(system_users, "_PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"\(useradd is missing\)"):
        system_users.ensure_user("bough-test-nobody", tmp_path / "lock")


def test_folders_are_passages_or_closed(two_homes: list[Settings]) -> None:
    home = two_homes[0]
    (home.home / "bough.toml").write_text("store_url = 'postgresql://bough:secret@db/bough'\n")
    Folders(home).ensure()
    passages = (home.home, home.home / "volumes", home.home / "templates", home.sockets, home.sockets.parent)
    closed = (home.home / "run", home.home / "uids", home.logs, home.compute_logs, home.sockets.parent / "uids")
    assert {read_mode(path) for path in passages} == {0o711}
    assert {read_mode(path) for path in closed} == {0o700}
    assert read_mode(home.home / "bough.toml") == 0o600


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_closed_folder_on_the_way_is_named(traversable_folder: Path) -> None:
    closed = traversable_folder / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(EngineError, match=f"cannot traverse {closed}: run `chmod o\\+x {closed}`"):
        check_traversable(closed / "home")


def test_a_socket_path_too_long_for_postgres_is_refused(settings: Settings) -> None:
    folders = Folders(settings)
    folders.sockets = Path("/tmp") / ("x" * 80)
    with pytest.raises(EngineError, match="longer than Postgres allows"):
        folders.socket_folder(EndpointId.new())


async def test_the_last_volume_takes_the_projects_user_with_it(home: EngineHome) -> None:
    require_root()
    first = await home.create_branch()
    project = first.spec.project_id
    second = await home.create_branch(project_id=project)
    assert first.data_folder.stat().st_uid == second.data_folder.stat().st_uid
    await first.delete()
    assert has_allocated_uid(home, project)
    await second.delete()
    await second.delete()
    assert not has_allocated_uid(home, project)


async def test_two_projects_have_different_users(home: EngineHome) -> None:
    require_root()
    first, second = await home.create_branch(), await home.create_branch()
    assert first.data_folder.stat().st_uid != second.data_folder.stat().st_uid


async def test_a_project_that_comes_back_at_once_has_a_user(home: EngineHome) -> None:
    require_root()
    first = await home.create_branch()
    await first.delete()
    spec = first.spec
    again = await home.create_branch(project_id=spec.project_id, volume_id=VolumeId.new())
    await home.engine.ensure_branch(make_branch_spec(again.spec))
    assert has_allocated_uid(home, spec.project_id)


def has_allocated_uid(home: EngineHome, project: ProjectId) -> bool:
    return any(str(link.readlink()) == project for link in (home.settings.home / "uids").iterdir())
