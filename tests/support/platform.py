"""Nouns with verbs for the tests: a Home, a Platform in this process, a Postgres to talk to.

Everything here is real: the real store, the real engine, real Postgres processes.
"""

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
    """Small and quiet: a warm pool, say, is for the tests that are about it."""
    given: dict[str, Any] = {
        "home": folder / "home",
        "free_space_floor": 0,
        "hold_seconds": 0.2,
        "warm_pool": 0,
        "instant_pool": 0,
        "hosts_file": None,
        **changes,
    }
    return Settings.model_validate(given)


@cache
def _prepare_templates() -> Path:
    """Templates made once for all homes of this run: initdb is the slowest part of a first start."""
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
    """A store after its first start, made once: to make its tables takes longer than what most tests do with them."""
    with tempfile.TemporaryDirectory(prefix="bough-", dir=ROOT) as folder:
        store = SqliteStore(Path(folder, "store.db"))
        _run_in_thread(store.open)
        _run_in_thread(store.close)
        return store.path.read_bytes()


def _run_in_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """To its end, though an event loop may run here already."""
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, work()).result()


def install_templates(home: Path) -> None:
    """A new home with its templates already in it."""
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    if not (home / "templates").exists():
        subprocess.run(["cp", "-a", str(_prepare_templates()), str(home / "templates")], check=True)


@cache
def _create_routes() -> FastAPI:
    """Made once for all platforms of this run: to make them takes longer than all the rest of a platform."""
    return create_bare_app()


def create_api_app(parts: Services) -> ASGIApp:
    """As `create_app` makes it, on those routes."""

    def with_state_of_its_own() -> FastAPI:
        made = copy.copy(_create_routes())
        made.state = State()
        return made

    with pytest.MonkeyPatch.context() as during:
        during.setattr(api_app, "create_bare_app", with_state_of_its_own)
        return api_app.create_app(parts)


class Platform:
    """The whole platform in this process, without a listening socket; work runs when asked to."""

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
        """Run all work that is due, now and as a result of it."""
        while True:
            await self.inner.runner.run_until_idle()
            async with self.store.read() as rows:
                if await rows.operations.count_open() == 0:
                    return
            await asyncio.sleep(0.05)

    async def run_tasks(self) -> None:
        """Every standing task, once, whether it is due or not."""
        for loop in self.inner.loops:
            await loop.run_all()

    @asynccontextmanager
    async def background_runner(self) -> AsyncIterator[None]:
        """The runner works by itself meanwhile, as in a control; standing tasks only when asked to."""
        runner = asyncio.create_task(self.inner.runner.run())
        try:
            yield
        finally:
            runner.cancel()
            with suppress(asyncio.CancelledError):
                await runner

    async def get_endpoint(self, made: dict[str, Any]) -> Endpoint:
        """The row of a project's first endpoint."""
        async with self.store.read() as rows:
            found = await rows.endpoints.get(EndpointId(made["endpoints"][0]["id"]))
        assert found is not None
        return found

    async def create_project(self, **fields: Any) -> dict[str, Any]:
        answer = await self.client.post(f"{API}/projects", json={"project": fields})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def create_ready_project(self, **fields: Any) -> dict[str, Any]:
        made = await self.create_project(**fields)
        await self.run_operations()
        return made

    async def list_operations(self, project_id: str) -> list[Operation]:
        async with self.store.read() as rows:
            page = await rows.operations.page(ProjectId(project_id), limit=1000, after=None)
        return list(reversed(page.rows))

    @asynccontextmanager
    async def connect(self, endpoint_id: str, role: str, database: str) -> AsyncIterator[Any]:
        """A client's connection, by the compute's socket."""
        address = await self.engine.find_address(EndpointId(endpoint_id))
        assert address is not None, "the compute does not accept connections"
        connection = await asyncpg.connect(host=address.host, port=address.port, user=role, database=database)
        try:
            yield connection
        finally:
            await connection.close()

    async def query(self, made: dict[str, Any], sql: str) -> Any:
        parameters = made["connection_uris"][0]["connection_parameters"]
        endpoint = made["endpoints"][0]["id"]
        async with self.connect(endpoint, parameters["role"], parameters["database"]) as connection:
            return await connection.fetchval(sql)

    async def create_context(self, request_id: str = "test") -> Context:
        """The operator's context, for calling control without HTTP."""
        async with self.store.read() as rows:
            principal = await self.services.keys.authenticate(rows, self.key)
        audit = AuditRecord(principal.actor, "test", address="", request_id=request_id)
        return Context(services=self.services, principal=principal, audit=audit)

    async def stop_computes(self) -> None:
        seen = await self.engine.observe()
        for endpoint in seen.running_endpoints | seen.spare_endpoints:
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
        async with open_platform_in(folder, **changes) as made:
            yield made
