"""A platform in this process, with the real store, the real engine and real Postgres processes."""

import asyncio
import atexit
import copy
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI
from starlette.datastructures import State
from starlette.types import ASGIApp

from bough import app
from bough.api import app as api_app
from bough.api.app import create_bare_app
from bough.config import Settings
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.services import Services
from bough.domain.endpoint import Endpoint
from bough.domain.operation import Operation
from bough.engine.local.engine import LocalEngine
from bough.ids import EndpointId, ProjectId
from bough.store.sqlite import SqliteStore
from support.folders import ROOT, temporary_folder
from support.postgres import ensure_postgres

__all__ = [
    "API",
    "END_STATUSES",
    "Platform",
    "create_api_app",
    "install_templates",
    "make_settings",
    "open_platform",
    "open_platform_in",
    "read_migrated_store",
    "temporary_folder",
]

API = "/api/v2"
END_STATUSES = {"finished", "failed", "cancelled", "skipped"}


def make_settings(folder: Path, **changes: Any) -> Settings:
    """Return settings without a warm pool and without other features that most tests do not need."""
    values: dict[str, Any] = {
        "home": folder / "home",
        "free_space_floor": 0,
        "hold_seconds": 0.2,
        "warm_pool": 0,
        "instant_pool": 0,
        "hosts_file": None,
        **changes,
    }
    return Settings.model_validate(values)


@cache
def _prepare_templates() -> Path:
    """Create templates once for all homes of this run, because initdb is the slowest part of a first start."""
    folder = Path(tempfile.mkdtemp(prefix="bough-", dir=ROOT))
    folder.chmod(0o711)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ensure_postgres()
    engine = LocalEngine(make_settings(folder))
    _run_in_thread(engine.prepare)
    shutil.rmtree(make_settings(folder).sockets, ignore_errors=True)
    return folder / "home" / "templates"


@cache
def read_migrated_store() -> bytes:
    """Return the file of a new store. It is created once, because creating the tables takes longer than most tests."""
    with tempfile.TemporaryDirectory(prefix="bough-", dir=ROOT) as folder:
        store = SqliteStore(Path(folder, "store.db"))
        _run_in_thread(store.open)
        _run_in_thread(store.close)
        return store.path.read_bytes()


def _run_in_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to completion, even if this thread already runs an event loop."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, work()).result()


def install_templates(home: Path) -> None:
    """Create the home with its templates, as hard links if possible: the files of a template never change."""
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    if not (home / "templates").exists():
        templates = _prepare_templates()
        options = "-al" if home.stat().st_dev == templates.stat().st_dev else "-a"
        subprocess.run(["cp", options, str(templates), str(home / "templates")], check=True)


@cache
def _create_routes() -> FastAPI:
    """Create the routes once for all platforms of this run, because this is the slowest part of a platform."""
    return create_bare_app()


def create_api_app(services: Services) -> ASGIApp:
    """Do what `create_app` does, with the cached routes."""

    def create_with_own_state() -> FastAPI:
        created = copy.copy(_create_routes())
        created.state = State()
        return created

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_app, "create_bare_app", create_with_own_state)
        return api_app.create_app(services)


class Platform:
    """A platform in this process, without a listening socket. Operations and tasks run only on request."""

    def __init__(self, inner: app.Platform) -> None:
        self.inner = inner
        self.services = inner.services
        self.store = inner.services.store
        self.engine = inner.engine
        self.settings = inner.services.settings
        self.key = app.load_operator_key(inner.services.settings)
        transport = httpx2.ASGITransport(app=create_api_app(inner.services), raise_app_exceptions=False)
        self.client = httpx2.AsyncClient(
            transport=transport, base_url="http://bough", headers={"Authorization": f"Bearer {self.key}"}, timeout=60
        )

    async def run_operations(self) -> None:
        """Run all operations, including those that are created meanwhile."""
        while True:
            await self.inner.runner.run_until_idle()
            async with self.store.read() as rows:
                if await rows.operations.count_open() == 0:
                    return
            await asyncio.sleep(0.05)

    async def run_tasks(self) -> None:
        """Run every task once, whether it is due or not."""
        for loop in self.inner.loops:
            await loop.run_all()

    @asynccontextmanager
    async def background_runner(self) -> AsyncIterator[None]:
        """Run operations in the background, as the control process does. Tasks still run only on request."""
        runner = asyncio.create_task(self.inner.runner.run())
        try:
            yield
        finally:
            runner.cancel()
            with suppress(asyncio.CancelledError):
                await runner

    async def get_endpoint(self, created: dict[str, Any]) -> Endpoint:
        """Return the row of the first endpoint in a response."""
        async with self.store.read() as rows:
            endpoint = await rows.endpoints.get(EndpointId(created["endpoints"][0]["id"]))
        assert endpoint is not None
        return endpoint

    async def create_project(self, **fields: Any) -> dict[str, Any]:
        response = await self.client.post(f"{API}/projects", json={"project": fields})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def create_ready_project(self, **fields: Any) -> dict[str, Any]:
        created = await self.create_project(**fields)
        await self.run_operations()
        return created

    async def list_operations(self, project_id: str) -> list[Operation]:
        async with self.store.read() as rows:
            page = await rows.operations.page(ProjectId(project_id), limit=1000, after=None)
        return list(reversed(page.rows))

    @asynccontextmanager
    async def connect(self, endpoint_id: str, role: str, database: str) -> AsyncIterator[Any]:
        """Connect a client through the socket of the compute."""
        address = await self.engine.find_address(EndpointId(endpoint_id))
        assert address is not None, "the compute does not accept connections"
        connection = await asyncpg.connect(host=address.host, port=address.port, user=role, database=database)
        try:
            yield connection
        finally:
            await connection.close()

    async def query(self, created: dict[str, Any], sql: str) -> Any:
        parameters = created["connection_uris"][0]["connection_parameters"]
        endpoint = created["endpoints"][0]["id"]
        async with self.connect(endpoint, parameters["role"], parameters["database"]) as connection:
            return await connection.fetchval(sql)

    async def create_context(self, request_id: str = "test") -> Context:
        """Return a context of the operator, to call control without HTTP."""
        async with self.store.read() as rows:
            principal = await self.services.keys.authenticate(rows, self.key)
        audit = AuditRecord(principal.actor, "test", address="", request_id=request_id)
        return Context(services=self.services, principal=principal, audit=audit)

    async def stop_computes(self) -> None:
        observation = await self.engine.observe()
        for endpoint in observation.running_endpoints | observation.spare_endpoints:
            await self.engine.ensure_suspended(endpoint)


@asynccontextmanager
async def open_platform_in(folder: Path, **changes: Any) -> AsyncIterator[Platform]:
    settings = make_settings(folder, **changes)
    install_templates(settings.home)
    if not (settings.home / "store.db").exists():
        (settings.home / "store.db").write_bytes(read_migrated_store())
    async with app.assemble_platform(settings) as inner:
        platform = Platform(inner)
        try:
            yield platform
        finally:
            await platform.client.aclose()
            await platform.stop_computes()
            shutil.rmtree(settings.sockets, ignore_errors=True)


@asynccontextmanager
async def open_platform(**changes: Any) -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        async with open_platform_in(folder, **changes) as created:
            yield created
