"""Rule 11: a file that a compute writes cannot be executed or loaded as a library, where the kernel supports that."""

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings, default_cache
from bough.engine.local.installs import download
from bough.engine.local.isolation import mount_namespace
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.engine.port import Readiness
from security.shared_library import write_library
from support.attacker import Attacker
from support.engine_home import Compute, EngineHome, home_on_driver
from support.folders import temporary_folder
from support.requirements import require_root

LONG_RUN_DRIVERS = pytest.param("reflink", marks=pytest.mark.long), pytest.param("btrfs", marks=pytest.mark.long)
COPY_AND_RUN = "cp /bin/true {0} && chmod 755 {0} && if {0}; then echo ran; else echo $?; fi 2>/dev/null; rm {0}"
WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")
REFUSED = "126"  # exit status of a shell for a file that it may not execute


@pytest.fixture(scope="module", params=["plain", "btrfs+wal", *LONG_RUN_DRIVERS])
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    require_root()
    download.fetch_install(17, default_cache())
    with home_on_driver(request.param) as settings:
        yield settings


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


async def runs(compute: Compute, *folders: str) -> dict[str, str]:
    """Writes and runs a program in each folder as the server's user; returns `ran` or its exit status by folder."""
    attacker = Attacker(compute)
    return {
        folder: await attacker.run_shell(COPY_AND_RUN.format(f"{folder}/bough-test-{os.getpid()}"))
        for folder in folders
    }


def read_mount_state(home: EngineHome) -> tuple[list[int], int]:
    """Returns the mount flags of these folders outside of computes, and the number of mounts below the home."""
    folders = (str(home.settings.home), *WORLD_WRITABLE)
    paths = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [os.statvfs(folder).f_flag for folder in folders], sum(path.startswith(folders[0]) for path in paths)


async def test_neither_a_program_nor_a_library(home: EngineHome) -> None:
    before = read_mount_state(home)
    compute = await home.create_compute()
    folders = (".", "pg_wal", str(compute.volume_folder / "archive"), *WORLD_WRITABLE)
    assert set((await runs(compute, *folders)).values()) == {REFUSED}
    marker = compute.data_folder / "ran"
    library = write_library(compute.data_folder, marker)
    async with compute.connect("bough_admin") as db:
        with pytest.raises(asyncpg.PostgresError, match="could not load library"):
            await db.execute(f"load '{library}'")
    assert not marker.exists()
    assert read_mount_state(home) == before, "the mounts of the machine itself must not change"


async def test_it_is_so_after_a_sleep_and_in_a_branch(home: EngineHome) -> None:
    parent = await home.create_compute()
    await parent.suspend()
    assert await parent.start() is Readiness.READY
    child = await home.create_child(parent)
    assert await child.start() is Readiness.READY
    for compute in (parent, child):
        assert await runs(compute, ".") == {".": REFUSED}


async def test_a_compute_works_as_before(home: EngineHome) -> None:
    """Parallel queries use shared memory, programs of the machine run, and a shell command archives WAL."""
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table many as select generate_series(1, 100000) as id")
        await db.execute(
            "set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0"
        )
        assert await db.fetchval("select count(*) from many") == 100_000
        plan = await db.fetchval("explain (analyze, format json) select count(*) from many")
        assert '"Workers Launched": 2' in plan
    assert await Attacker(compute).run_shell("echo seen | cat") == "seen"
    async with compute.connect("bough_admin") as db:
        await db.execute("select pg_switch_wal()")
        while not await db.fetchval("select archived_count from pg_stat_archiver"):
            assert not await db.fetchval("select failed_count from pg_stat_archiver")
            await asyncio.sleep(0.01)


async def test_on_an_older_kernel_too(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel has no system call that changes all mounts below a folder, so each is changed on its own."""

    def raise_enosys(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(mount_namespace, "_set_attributes", raise_enosys)
    compute = await home.create_compute()
    assert set((await runs(compute, ".", "/tmp", "/dev/shm")).values()) == {REFUSED}


def test_programs_that_are_kept_among_closed_folders_can_be_run(settings: Settings) -> None:
    """The cache may be in the home or in /tmp. Only the platform writes there."""
    with temporary_folder() as folder:
        (folder / "cache").mkdir()
        program = shutil.copy("/bin/true", folder / "cache" / "true")
        elsewhere = shutil.copy("/bin/true", folder / "true")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                MountNamespace((settings.home, folder), folder / "cache").enter()
                assert subprocess.run([program], check=False).returncode == 0
                try:
                    subprocess.run([elsewhere], check=False)
                except PermissionError:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Root without the right to mount, as in most containers: a compute runs, and `bough doctor` reports the limitation.
WITHOUT_MOUNT_RIGHT = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
COMPUTE_PROGRAM = """
import asyncio, sys
from pathlib import Path
from bough.config import Settings
from support.engine_home import EngineHome
from security.test_11_nothing_written_runs import runs
async def tell():
    async with EngineHome.open(Settings(home=Path(sys.argv[1]), free_space_floor=0)) as home:
        print(await runs(await home.create_compute(), "."))
asyncio.run(tell())
"""


@pytest.mark.parametrize("settings", ["plain"], indirect=True)
def test_where_the_machine_does_not_let_us_computes_run_and_the_doctor_says_so(settings: Settings) -> None:
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(tests)}
    command = [*WITHOUT_MOUNT_RIGHT, sys.executable, "-c", COMPUTE_PROGRAM, str(settings.home)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout.splitlines()[-1:] == ["{'.': 'ran'}"], result.stderr
    doctor = [
        *WITHOUT_MOUNT_RIGHT,
        sys.executable,
        "-m",
        "bough.cli.main",
        "doctor",
        "--json",
        "--home",
        str(settings.home),
    ]
    findings = json.loads(subprocess.run(doctor, capture_output=True, text=True, check=False).stdout)
    [confinement] = [finding for finding in findings if finding["name"] == "confinement"]
    assert confinement["verdict"] == "warning"
    assert "computes can execute files that they write (Operation not permitted)" in confinement["sentence"]
