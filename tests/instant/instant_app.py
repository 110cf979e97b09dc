"""The instant API of a platform, as a client without an account uses it."""

from dataclasses import replace
from typing import Any, cast

import httpx2

from bough.api.app import create_app
from bough.config import Settings
from bough.control.platform.creation_limits import CreationLimits
from bough.control.platform.rate_limits import RateLimiter
from bough.engine.port import Capabilities, Engine
from bough.ids import InstantId
from bough.instant import app
from support.platform import Platform

NO_LIMITS: dict[str, Any] = {
    "rate_per_minute_and_address": 10**9,
    "instant_per_hour": 10**9,
    "instant_per_hour_and_address": 10**9,
}
DATABASE_PATH = "/api/v1/database"


class EngineWithCapabilities:
    """An engine with other capabilities."""

    def __init__(self, engine: Engine, **changes: Any) -> None:
        self._engine = engine
        self._changes = changes

    def capabilities(self) -> Capabilities:
        return replace(self._engine.capabilities(), **self._changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class InstantApp:
    """The API with its own settings and capabilities."""

    def __init__(self, platform: Platform, capabilities: dict[str, Any] | None = None, **changes: Any) -> None:
        self.platform = platform
        self.settings = Settings.model_validate({**platform.settings.model_dump(), **NO_LIMITS, **changes})
        self.services = replace(
            platform.services,
            settings=self.settings,
            rate_limiter=RateLimiter(self.settings),
            creation_limits=CreationLimits(self.settings),
            engine=cast(Engine, EngineWithCapabilities(platform.engine, **(capabilities or {}))),
        )
        self.asgi_app = create_app(self.services, app.routes())

    def client(self, address: str = "127.0.0.1") -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=self.asgi_app, raise_app_exceptions=False, client=(address, 50000))
        return httpx2.AsyncClient(transport=transport, base_url="http://bough", timeout=600)

    async def post(self, path: str = DATABASE_PATH, address: str = "127.0.0.1", **options: Any) -> httpx2.Response:
        async with self.client(address) as client:
            return await client.post(path, **options)

    async def get(self, database_id: str) -> httpx2.Response:
        async with self.client() as client:
            return await client.get(f"{DATABASE_PATH}/{database_id}")

    async def create(self, **fields: Any) -> dict[str, Any]:
        response = await self.post(json={"ref": "tests", **fields})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def update_row(self, created: dict[str, Any], **changes: Any) -> None:
        """Changes its row, to simulate time or another process."""
        async with self.platform.store.transaction() as rows:
            found = await rows.instant_databases.get(self.services.keys.digest(InstantId(created["id"])))
            assert found is not None
            await rows.instant_databases.save(replace(found, **changes))

    async def fetch_value(self, created: dict[str, Any], statement: str) -> Any:
        """Queries the database through the socket of its compute."""
        endpoint = created["connection_string"].split("@")[1].split("-pooler")[0]
        async with self.platform.connect(endpoint, "neondb_owner", "neondb") as session:
            return await session.fetchval(statement)
