"""An engine with its home and computes, used directly instead of by control."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg

from bench import storage
from bench.pgbench import ServerTarget
from bench.plain_postgres import MAJOR
from bench.storage import StorageHome
from bough.control.defaults import MAX_CU
from bough.engine.local.engine import LocalEngine
from bough.engine.port import Readiness
from bough.engine.spec import (
    BranchSpec,
    ComputeSpec,
    DatabaseSpec,
    RoleSpec,
    build_default_settings,
    build_size_settings,
)
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE
from bough.postgres.scram import scram_verifier

ROLE, DATABASE = "neondb_owner", "neondb"
# Includes the settings of its size, for the report; a compute has them in a separate file.
SETTINGS = {**build_size_settings(MAX_CU), **build_default_settings(MAX_CU)}
_VERIFIER = scram_verifier("npg_abcdefghijklmnopqrstuvwx")


@dataclass(slots=True)
class Compute:
    home: "Home"
    spec: ComputeSpec

    @property
    def volume_folder(self) -> Path:
        return self.home.storage_home.volumes_folder / self.spec.volume_id

    @property
    def data_folder(self) -> Path:
        return self.volume_folder / "data"

    @property
    def target(self) -> ServerTarget:
        """How programs and sessions connect through the socket."""
        return ServerTarget(self.home.storage_home.settings.sockets / self.spec.endpoint_id, ROLE, DATABASE)

    async def start(self, settings: Mapping[str, str] = SETTINGS) -> None:
        """Wait until it accepts connections; a changed setting may restart it."""
        self.spec = replace(self.spec, settings=settings)
        while await self.home.engine.ensure_running(self.spec) is not Readiness.READY:
            continue

    async def suspend(self) -> None:
        await self.home.engine.ensure_suspended(self.spec.endpoint_id)

    async def delete(self) -> None:
        await self.suspend()
        await self.home.engine.ensure_absent(self.spec.project_id, self.spec.volume_id)
        self.home.computes.remove(self)

    async def checkpoint(self) -> None:
        await self.execute_as_admin("checkpoint")

    async def quiesce(self) -> None:
        """Vacuum, checkpoint and sync what a run of pgbench left behind."""
        async with connect(self.target) as session:
            await session.execute("vacuum")
            await session.execute("truncate pgbench_history")
        await self.checkpoint()
        os.sync()

    async def execute_as_admin(self, *statements: str) -> None:
        """Run statements as the superuser."""
        async with connect(replace(self.target, role=ADMIN_ROLE, database=MAINTENANCE_DATABASE)) as session:
            for statement in statements:
                await session.execute(statement)


class Home:
    def __init__(self, storage_home: StorageHome, engine: LocalEngine) -> None:
        self.storage_home = storage_home
        self.engine = engine
        self.computes: list[Compute] = []

    @property
    def driver(self) -> str:
        return self.storage_home.driver

    async def create_compute(self, pin: str | None = None) -> Compute:
        """Create a project with its branch, on the default build or that of the pin; do not start its compute."""
        return await self._create(self._make_spec(ProjectId.new(), pin), None)

    async def create_child(self, parent: Compute) -> Compute:
        """Create a branch of the parent, which may be running; do not start its compute."""
        return await self._create(self._make_spec(parent.spec.project_id), parent.spec.volume_id)

    async def _create(self, spec: ComputeSpec, parent: VolumeId | None) -> Compute:
        compute = Compute(self, spec)
        self.computes.append(compute)
        await self.engine.ensure_branch(
            BranchSpec(
                project_id=spec.project_id, volume_id=spec.volume_id, install=spec.install, source_volume_id=parent
            )
        )
        return compute

    def _make_spec(self, project: ProjectId, pin: str | None = None) -> ComputeSpec:
        return ComputeSpec(
            project_id=project,
            branch_id=BranchId.new(),
            endpoint_id=EndpointId.new(),
            volume_id=VolumeId.new(),
            install=pin or self.engine.capabilities().installs[MAJOR],
            max_cu=MAX_CU,
            settings=SETTINGS,
            roles=(RoleSpec(name=ROLE, verifier=_VERIFIER),),
            databases=(DatabaseSpec(name=DATABASE, owner=ROLE),),
        )


@asynccontextmanager
async def open_home(driver: str, image_gb: int, *, thin: bool = True) -> AsyncIterator[Home]:
    """Stop all computes and remove the home at the end."""
    with storage.create_storage_home(driver, image_gb, thin=thin) as storage_home:
        engine = LocalEngine(storage_home.settings)
        home = Home(storage_home, engine)
        try:
            await engine.prepare()
            yield home
        finally:
            await engine.close()


@asynccontextmanager
async def connect(target: ServerTarget) -> AsyncIterator[Any]:
    session = await asyncpg.connect(
        host=str(target.sockets), user=target.role, database=target.database, password="", ssl=False
    )
    try:
        yield session
    finally:
        await session.close()
