"""A home with an engine and computes on real Postgres, for tests of the engine."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bough.config import Settings
from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.pid_file import PidFile
from bough.engine.local.engine import LocalEngine
from bough.engine.local.folders import Folders
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import FileSystem, Image
from bough.engine.local.progress import ignore_progress
from bough.engine.port import Readiness, VolumeHasDependents
from bough.engine.spec import BranchSpec, ComputeSpec, DatabaseSpec, RoleSpec, build_default_settings
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres.scram import scram_verifier
from support.folders import release_uids, remove_cgroups, temporary_folder
from support.loop_images import mount_loop_image
from support.requirements import require_cow

ROLE = "neondb_owner"
DATABASE = "neondb"
PASSWORD = "npg_abcdefghijklmnopqrstuvwx"
VERIFIER = scram_verifier(PASSWORD)


@contextmanager
def temporary_home(**changes: Any) -> Iterator[Settings]:
    """Yield the settings of a home that other users can traverse. Everything is removed at the end."""
    with temporary_folder() as path, home_in(path, **changes) as settings:
        yield settings


# `btrfs+wal`: the data on btrfs and the WAL on the file system of the home.
DRIVERS = ("plain", "reflink", "btrfs", "btrfs+wal")
# The everyday tier uses the more complex variant of btrfs. `plain` runs only in the long tier, because most other tests
# use it, except for users who cannot mount file systems.
_LONG_TIER_DRIVERS = ("btrfs", "plain") if os.geteuid() == 0 else ("btrfs",)
DRIVER_PARAMS = tuple(
    pytest.param(driver, marks=pytest.mark.long) if driver in _LONG_TIER_DRIVERS else driver for driver in DRIVERS
)
_TIMEOUT = 10.0  # seconds after which a compute that does not stop is killed


@contextmanager
def home_on_driver(driver: str, **changes: Any) -> Iterator[Settings]:
    """Yield the settings of a home that uses this driver, on its own file system if necessary."""
    if driver == "plain":
        with temporary_home(storage="plain", **changes) as settings:
            yield settings
        return
    require_cow()
    if driver == "btrfs+wal":
        with home_with_image("btrfs", **changes) as settings:
            yield settings
        return
    fs: FileSystem = "xfs" if driver == "reflink" else "btrfs"
    with mount_loop_image(fs, 2048) as folder, home_in(folder, storage=driver, **changes) as settings:
        yield settings


@contextmanager
def home_with_image(fs: FileSystem, **changes: Any) -> Iterator[Settings]:
    """Yield the settings of a home with a storage image as `bough storage init` creates it."""
    with temporary_home(**changes) as settings:
        settings.home.mkdir(mode=0o711)
        image = Image.plan(settings.home, settings.home / "storage.img", fs=fs, thin=True, size=2 << 30)
        image_setup.create_image(image, 0, ignore_progress)
        try:
            yield settings
        finally:
            _stop_computes(settings)
            image.unmount()


@contextmanager
def home_in(folder: Path, **changes: Any) -> Iterator[Settings]:
    """Yield the settings of a home in this folder. Its computes, sockets and user ids are released at the end."""
    values: dict[str, Any] = {"home": folder / "home", "free_space_floor": 0, **changes}
    settings = Settings.model_validate(values)
    try:
        yield settings
    finally:
        _stop_computes(settings)
        shutil.rmtree(settings.sockets, ignore_errors=True)
        remove_cgroups(settings)
        release_uids(folder)


def _stop_computes(settings: Settings) -> None:
    """Stop all computes, also after a failed test. They are found by their data directories."""
    for data in [*settings.home.glob("volumes/*/data"), *settings.home.glob("storage/volumes/*/data")]:
        process = postmaster.find(data)
        if process is not None:
            with process:
                process.signal(signal.SIGINT)
                deadline = time.monotonic() + _TIMEOUT
                while not process.has_ended():
                    time.sleep(0.01)
                    if time.monotonic() > deadline:  # a damaged Postgres 17 may never stop on its own
                        process.signal(signal.SIGKILL)


def process_exists(pid: int) -> bool:
    """Zombies count, because their parent should have reaped them."""
    return Path(f"/proc/{pid}").exists()


def make_compute_spec(install: str, **changes: Any) -> ComputeSpec:
    """Return a complete spec with default names and new ids."""
    spec = ComputeSpec(
        project_id=ProjectId.new(),
        branch_id=BranchId.new(),
        endpoint_id=EndpointId.new(),
        volume_id=VolumeId.new(),
        install=install,
        max_cu=0.25,
        settings=build_default_settings(0.25),
        roles=(RoleSpec(name=ROLE, verifier=VERIFIER),),
        databases=(DatabaseSpec(name=DATABASE, owner=ROLE),),
    )
    return replace(spec, **changes)


def make_branch_spec(spec: ComputeSpec) -> BranchSpec:
    return BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=spec.install)


@asynccontextmanager
async def open_connection(address: ComputeAddress, role: str = ROLE, database: str = DATABASE) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(
        host=address.host, port=address.port, user=role, database=database, password="", timeout=10
    )
    try:
        yield connection
    finally:
        with suppress(OSError):  # its server may have been killed meanwhile
            await connection.close()


@dataclass
class Compute:
    """A compute in a home. Its spec may change; its branch does not."""

    home: "EngineHome"
    spec: ComputeSpec

    @property
    def volume_folder(self) -> Path:
        return Folders(self.home.settings).volumes / self.spec.volume_id

    @property
    def data_folder(self) -> Path:
        return self.volume_folder / "data"

    @property
    def log_file(self) -> Path:
        return self.home.settings.logs / "computes" / f"{self.spec.endpoint_id}.log"

    @property
    def pid(self) -> int:
        file = PidFile.read(self.data_folder)
        assert file is not None, "no postmaster"
        return file.pid

    async def start(self, **changes: Any) -> Readiness:
        self.spec = replace(self.spec, **changes)
        return await self.home.engine.ensure_running(self.spec)

    async def suspend(self) -> None:
        await self.home.engine.ensure_suspended(self.spec.endpoint_id)

    async def delete(self) -> None:
        await self.home.engine.ensure_absent(self.spec.project_id, self.spec.volume_id)

    async def get_address(self) -> ComputeAddress | None:
        return await self.home.engine.find_address(self.spec.endpoint_id)

    @asynccontextmanager
    async def connect(self, role: str = ROLE, database: str = DATABASE) -> AsyncIterator[Any]:
        address = await self.get_address()
        assert address is not None, "the compute does not accept connections"
        async with open_connection(address, role, database) as connection:
            yield connection

    async def fetch_value(self, sql: str, role: str = ROLE, database: str = DATABASE) -> Any:
        async with self.connect(role, database) as connection:
            return await connection.fetchval(sql)

    async def kill(self) -> None:
        """Kill the postmaster, as the kernel does when memory runs out, and wait until it has ended."""
        await kill_process(self.pid)


async def kill_process(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(_wait_for, pidfd)
    os.close(pidfd)


def _wait_for(pidfd: int) -> None:
    with suppress(ChildProcessError):  # the engine has already reaped it
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)


async def kill_postmaster_of(backend: int) -> None:
    """Kill the postmaster of a backend process, and wait until it has ended."""
    fields = Path(f"/proc/{backend}/stat").read_text().rsplit(")", 1)[1].split()
    await kill_process(int(fields[1]))


class EngineHome:
    def __init__(self, settings: Settings, engine: LocalEngine) -> None:
        self.settings = settings
        self.engine = engine
        self.computes: list[Compute] = []

    def get_install(self, major: int = 17) -> str:
        return self.engine.capabilities().installs[major]

    async def create_branch(self, major: int = 17, **changes: Any) -> Compute:
        """Create a branch with a volume, without starting its compute."""
        compute = Compute(self, make_compute_spec(self.get_install(major), **changes))
        self.computes.append(compute)
        await self.engine.ensure_branch(make_branch_spec(compute.spec))
        return compute

    async def create_compute(self, major: int = 17, **changes: Any) -> Compute:
        """Create a branch and start its compute."""
        compute = await self.create_branch(major, **changes)
        assert await compute.start() is Readiness.READY
        return compute

    async def create_child(self, parent: Compute) -> Compute:
        """Create a child branch, without starting its compute."""
        child_spec = replace(
            parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new(), branch_id=BranchId.new()
        )
        compute = Compute(self, child_spec)
        self.computes.append(compute)
        await self.engine.ensure_branch(replace(make_branch_spec(compute.spec), source_volume_id=parent.spec.volume_id))
        return compute

    async def ensure_compute(self, spec: ComputeSpec) -> Compute:
        """Create or start a compute with this spec. It is not deleted before the home."""
        compute = Compute(self, spec)
        await self.engine.ensure_branch(make_branch_spec(spec))
        assert await compute.start() is Readiness.READY
        return compute

    async def restart_control(self) -> None:
        """Replace the engine, as when control is restarted; computes keep running."""
        await self.engine.close()
        self.engine = LocalEngine(self.settings)
        await self.engine.prepare()

    async def delete_computes(self) -> None:
        for compute in self.computes:
            await compute.suspend()
        remaining = self.computes
        while remaining:
            remaining = [compute for compute in remaining if await self._delete_or_has_dependents(compute)]

    async def _delete_or_has_dependents(self, compute: Compute) -> bool:
        """Delete the compute; return whether another volume must be deleted first."""
        try:
            await compute.delete()
        except VolumeHasDependents:
            return True
        return False

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator["EngineHome"]:
        engine = LocalEngine(settings)
        await engine.prepare()
        home = cls(settings, engine)
        try:
            yield home
        finally:
            await home.delete_computes()
            await engine.close()
