"""A platform and a gateway in one process; their messages go through JSON as they would over the socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import psycopg

from bough.api.gateway_api import GatewayApiHandlers
from bough.domain.gateway_protocol import Access, AccessRequest, ComputeAddress, WakeRequest
from bough.domain.gateway_reports import ActivityReport, ReportReply
from bough.gateway.worker import request_handlers
from bough.ids import EndpointId
from bough.tasks.loop import Task
from support.gateway import InProcessGateway
from support.platform import Platform, open_platform

ClientConnection = psycopg.AsyncConnection[Any]


class InProcessControlPlane:
    def __init__(self, handlers: GatewayApiHandlers) -> None:
        self._handlers = handlers

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        request = AccessRequest(endpoint=endpoint, role=role)
        return Access.from_json(_round_trip(await self._handlers.access(_round_trip(request.to_json()))))

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        request = WakeRequest(endpoint=endpoint)
        return ComputeAddress.from_json(_round_trip(await self._handlers.wake(_round_trip(request.to_json()))))

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        return ReportReply.from_json(_round_trip(await self._handlers.report(_round_trip(report.to_json())))).changed


def _round_trip(body: dict[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(json.dumps(body))
    return parsed


@dataclass
class PlatformGateway:
    platform: Platform
    gateway: InProcessGateway

    async def connect(self, created: dict[str, Any], *, pooled: bool = False, **options: Any) -> ClientConnection:
        parameters = created["connection_uris"][0]["connection_parameters"]
        host = parameters["pooler_host"] if pooled else parameters["host"]
        login = {"user": parameters["role"], "password": parameters["password"], "dbname": parameters["database"]}
        return await psycopg.AsyncConnection.connect(
            host=host,
            hostaddr="127.0.0.1",
            port=self.gateway.port,
            sslmode="require",
            autocommit=True,
            **login | options,
        )

    async def run_task(self, task: type[Task]) -> str:
        """Run a task once after the gateway has reported, and then the operations that it has created."""
        for services in self.gateway.worker_services:
            await services.activity.report()
        tasks = [each for loop in self.platform.inner.loops for each in loop.tasks]
        sentence = await next(each for each in tasks if isinstance(each, task)).run()
        await self.platform.run_operations()
        return sentence


@asynccontextmanager
async def open_platform_gateway(**settings: Any) -> AsyncIterator[PlatformGateway]:
    async with open_platform(**settings) as platform:
        folder = platform.settings.gateway_folder
        folder.mkdir(parents=True, exist_ok=True)
        gateway = InProcessGateway(folder, cast(Any, InProcessControlPlane(platform.inner.gateway_api)))
        gateway.open(1)
        for peers, services in zip(gateway.peers, gateway.worker_services, strict=True):
            await peers.listen(request_handlers(services))
        try:
            yield PlatformGateway(platform, gateway)
        finally:
            for server, peers in zip(gateway.servers, gateway.peers, strict=True):
                server.stop_accepting()
                await server.stop(1)
                server.services.pools.close()
                peers.close()
            await asyncio.sleep(0)
