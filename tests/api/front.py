"""The HTTP front of a platform as tests meet it: in this process, watched on both sides.

Outward every answer is compared with the contract, and an answer of the 500s fails the test.
Inward handlers get an engine that can only be looked at, and may start no process.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

import world
from bough.app import DEFAULT_GATEWAY_PORT
from bough.config import Settings
from bough.control.limits import Limiter
from bough.control.parts import Parts
from bough.domain.endpoint import Hosts
from bough.engine.port import Capabilities, Engine, Observation
from bough.ids import VolumeId
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from compat.contract import published
from compat.watch import Watch

NO_LIMITS: dict[str, Any] = {
    "rate_per_minute": 10**9,
    "rate_per_second_and_route": 10**9,
    "rate_per_minute_and_address": 10**9,
}
_handling: ContextVar[bool] = ContextVar("handling", default=False)
offences: list[str] = []  # what handlers did and may not; a fixture looks after every test


class OnlyLooks:
    """The engine as handlers may hold it: what it can do, what runs and where a WAL ends, nothing more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def capabilities(self) -> Capabilities:
        return self._engine.capabilities()

    async def observe(self) -> Observation:
        return await self._engine.observe()

    async def written_until(self, volume: VolumeId) -> str | None:
        return await self._engine.written_until(volume)

    def __getattr__(self, name: str) -> Any:
        _refuse(f"a handler called engine.{name}")


def _refuse(offence: str) -> None:
    offences.append(offence)
    raise AssertionError(f"{offence}: the API decides; only operations touch the machine")


def forbid_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a request is handled, starting a process is an offence."""
    start, popen = asyncio.create_subprocess_exec, subprocess.Popen

    async def guarded_start(*command: Any, **options: Any) -> Any:
        if _handling.get():
            _refuse(f"a handler started {command}")
        return await start(*command, **options)

    class GuardedPopen(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *command: Any, **options: Any) -> None:
            if _handling.get():
                _refuse(f"a handler started {command}")
            super().__init__(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", guarded_start)
    monkeypatch.setattr(subprocess, "Popen", GuardedPopen)


class Front:
    """The API over a platform's store, under settings of its own."""

    def __init__(self, platform: world.Platform, **changes: Any) -> None:
        self.platform = platform
        self.settings = Settings.model_validate({**platform.settings.model_dump(), **NO_LIMITS, **changes})
        self.parts: Parts = replace(
            platform.parts,
            settings=self.settings,
            limiter=Limiter(self.settings),
            queue=Queue(platform.store, Events(), EVERY, self.settings.hold_seconds),
            hosts=Hosts(domain=self.settings.domain, port=self.settings.gateway_port or DEFAULT_GATEWAY_PORT),
            engine=cast(Engine, OnlyLooks(platform.engine)),
        )
        self.watch = Watch(published())
        self.app = _marked(world.api_of(self.parts))

    def client(
        self, token: str | None = None, *, crashes: bool = False, address: str = "127.0.0.1"
    ) -> httpx2.AsyncClient:
        """An HTTP client with a key, or without one. `crashes`: a 500 is what the test is after."""
        hooks = [self.watch.hook] if crashes else [_never_ours, self.watch.hook]
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False, client=(address, 50000))
        return httpx2.AsyncClient(
            transport=transport,
            base_url=f"http://bough{world.API}",
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            event_hooks={"response": hooks},
            timeout=60,
        )


def _marked(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        before = _handling.set(True)
        try:
            await app(scope, receive, send)
        finally:
            _handling.reset(before)

    return marked


async def _never_ours(response: httpx2.Response) -> None:
    await response.aread()
    assert response.status_code < 500, f"{response.request.method} {response.request.url}: {response.text}"


@asynccontextmanager
async def front(**changes: Any) -> AsyncIterator[Front]:
    """A front over a platform of its own, without rate limits."""
    async with world.platform(**{**NO_LIMITS, **changes}) as platform:
        yield Front(platform)
