"""The API of a platform in this process, with checks of its responses and of its handlers.

Every response is compared with the contract, and a 5xx response fails the test. Handlers get a read-only engine and
may not start processes.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from bough.app import DEFAULT_GATEWAY_PORT
from bough.config import Settings
from bough.control.platform.rate_limits import RateLimiter
from bough.control.services import Services
from bough.domain.endpoint import EndpointHosts
from bough.domain.maintenance import RestartNeed
from bough.domain.statement_handle import StatementHandle
from bough.engine.port import (
    Build,
    Capabilities,
    Engine,
    IndexToRebuild,
    Observation,
    OfferedExtensions,
    PutBackBuild,
    RunningStatement,
    SignalOutcome,
    StatementStatistics,
    StatisticsQuery,
)
from bough.ids import EndpointId, ProjectId, VolumeId
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from support.contract import load_contract
from support.contract_checks import ContractChecker
from support.platform import API, Platform, create_api_app, open_platform

NO_LIMITS: dict[str, Any] = {
    "rate_per_minute": 10**9,
    "rate_per_second_and_route": 10**9,
    "rate_per_minute_and_address": 10**9,
}
_is_handling: ContextVar[bool] = ContextVar("is_handling", default=False)
violations: list[str] = []  # forbidden calls of handlers; a fixture checks this after every test


class ReadOnlyEngine:
    """The engine for handlers: only capabilities, running computes and their statements, builds and the end of WAL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def capabilities(self) -> Capabilities:
        return self._engine.capabilities()

    async def observe(self) -> Observation:
        return await self._engine.observe()

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        return await self._engine.read_wal_end(volume)

    async def list_builds(self) -> tuple[Build, ...]:
        return await self._engine.list_builds()

    async def list_indexes_to_rebuild(self) -> Mapping[VolumeId, tuple[IndexToRebuild, ...]]:
        return await self._engine.list_indexes_to_rebuild()

    async def list_restart_needs(self, project: ProjectId | None = None) -> tuple[RestartNeed, ...]:
        return await self._engine.list_restart_needs(project)

    async def find_put_back(self, volume: VolumeId) -> PutBackBuild | None:
        return await self._engine.find_put_back(volume)

    async def list_put_back(self) -> tuple[PutBackBuild, ...]:
        return await self._engine.list_put_back()

    async def list_offered_extensions(self, pin: str, project: ProjectId | None = None) -> OfferedExtensions:
        return await self._engine.list_offered_extensions(pin, project)

    async def read_statement_statistics(
        self, endpoint: EndpointId, query: StatisticsQuery
    ) -> StatementStatistics | None:
        return await self._engine.read_statement_statistics(endpoint, query)

    async def ensure_statistics_readable(self, endpoint: EndpointId) -> bool | None:
        return await self._engine.ensure_statistics_readable(endpoint)

    async def reset_statement_statistics(self, endpoint: EndpointId) -> bool | None:
        return await self._engine.reset_statement_statistics(endpoint)

    async def list_running_statements(self, endpoint: EndpointId) -> tuple[RunningStatement, ...] | None:
        return await self._engine.list_running_statements(endpoint)

    async def signal_statement(
        self, endpoint: EndpointId, handle: StatementHandle, *, terminate: bool = False
    ) -> SignalOutcome | None:
        return await self._engine.signal_statement(endpoint, handle, terminate=terminate)

    def __getattr__(self, name: str) -> Any:
        _record_violation(f"a handler called engine.{name}")


def _record_violation(violation: str) -> None:
    violations.append(violation)
    raise AssertionError(f"{violation}: only operations may change the machine")


def forbid_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record a violation if a handler starts a process."""
    create_process, popen = asyncio.create_subprocess_exec, subprocess.Popen

    async def guarded_start(*command: Any, **options: Any) -> Any:
        if _is_handling.get():
            _record_violation(f"a handler started {command}")
        return await create_process(*command, **options)

    class GuardedPopen(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *command: Any, **options: Any) -> None:
            if _is_handling.get():
                _record_violation(f"a handler started {command}")
            super().__init__(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", guarded_start)
    monkeypatch.setattr(subprocess, "Popen", GuardedPopen)


class ApiApp:
    """The API of a platform, with its own settings."""

    def __init__(self, platform: Platform, **changes: Any) -> None:
        self.platform = platform
        self.settings = Settings.model_validate({**platform.settings.model_dump(), **NO_LIMITS, **changes})
        self.services: Services = replace(
            platform.services,
            settings=self.settings,
            rate_limiter=RateLimiter(self.settings),
            queue=OperationQueue(platform.store, Events(), ALL_ACTIONS, self.settings.hold_seconds),
            hosts=EndpointHosts(domain=self.settings.domain, port=self.settings.gateway_port or DEFAULT_GATEWAY_PORT),
            engine=cast(Engine, ReadOnlyEngine(platform.engine)),
        )
        self.contract_checker = ContractChecker(load_contract())
        self.asgi_app = _mark_requests(create_api_app(self.services))

    def client(
        self, token: str | None = None, *, crashes: bool = False, address: str = "127.0.0.1"
    ) -> httpx2.AsyncClient:
        """Return an HTTP client with or without a key. `crashes`: the test expects a 500."""
        hooks = (
            [self.contract_checker.check_response]
            if crashes
            else [_reject_server_errors, self.contract_checker.check_response]
        )
        transport = httpx2.ASGITransport(app=self.asgi_app, raise_app_exceptions=False, client=(address, 50000))
        return httpx2.AsyncClient(
            transport=transport,
            base_url=f"http://bough{API}",
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            event_hooks={"response": hooks},
            timeout=60,
        )


def _mark_requests(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        token = _is_handling.set(True)
        try:
            await app(scope, receive, send)
        finally:
            _is_handling.reset(token)

    return marked


async def _reject_server_errors(response: httpx2.Response) -> None:
    await response.aread()
    assert response.status_code < 500, f"{response.request.method} {response.request.url}: {response.text}"


@asynccontextmanager
async def open_api_app(**changes: Any) -> AsyncIterator[ApiApp]:
    """Open the API of a new platform, without rate limits."""
    async with open_platform(**{**NO_LIMITS, **changes}) as platform:
        yield ApiApp(platform)
