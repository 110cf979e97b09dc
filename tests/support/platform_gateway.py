"""A platform in this process with a gateway before it, which asks it as it would over the plane's socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import psycopg

from bough.api.gateway_api import GatewayApiHandlers
from bough.gateway.control_plane import Access, ActivityReport, ComputeAddress
from bough.gateway.worker import request_handlers
from bough.ids import EndpointId
from bough.tasks.loop import Task
from support.gateway import InProcessGateway
from support.platform import Platform, open_platform

ClientConnection = psycopg.AsyncConnection[Any]


class InProcessControlPlane:
    def __init__(self, plane: GatewayApiHandlers) -> None:
        self._control_plane = plane

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        return Access.from_json(_round_trip(await self._control_plane.access(_body(endpoint=endpoint, role=role))))

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        return ComputeAddress(**_round_trip(await self._control_plane.wake(_body(endpoint=endpoint))))

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        return [
            EndpointId(text) for text in _round_trip(await self._control_plane.report(_body(**asdict(report))))["drop"]
        ]


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _round_trip(answer: dict[str, Any]) -> dict[str, Any]:
    passed: dict[str, Any] = json.loads(json.dumps(answer))
    return passed


@dataclass
class PlatformGateway:
    platform: Platform
    gateway: InProcessGateway

    async def connect(self, made: dict[str, Any], *, pooled: bool = False, **more: Any) -> ClientConnection:
        given = made["connection_uris"][0]["connection_parameters"]
        host = given["pooler_host"] if pooled else given["host"]
        login = {"user": given["role"], "password": given["password"], "dbname": given["database"], **more}
        return await psycopg.AsyncConnection.connect(
            host=host, hostaddr="127.0.0.1", port=self.gateway.port, sslmode="require", autocommit=True, **login
        )

    async def run_task(self, task: type[Task]) -> str:
        """One beat of a standing task, after gateways have reported; and the work that follows from it."""
        for rooms in self.gateway.worker_services:
            await rooms.activity.report()
        every = [each for loop in self.platform.inner.loops for each in loop.tasks]
        sentence = await next(each for each in every if isinstance(each, task)).run()
        await self.platform.run_operations()
        return sentence


@asynccontextmanager
async def open_platform_gateway(**settings: Any) -> AsyncIterator[PlatformGateway]:
    async with open_platform(**settings) as platform:
        folder = platform.settings.gateway_folder
        folder.mkdir(parents=True, exist_ok=True)
        way = InProcessGateway(folder, cast(Any, InProcessControlPlane(platform.inner.gateway_api)))
        way.open(1)
        for siblings, rooms in zip(way.peers, way.worker_services, strict=True):
            await siblings.listen(request_handlers(rooms))
        try:
            yield PlatformGateway(platform, way)
        finally:
            for server, siblings in zip(way.servers, way.peers, strict=True):
                server.stop_accepting()
                await server.stop(1)
                server.services.pools.close()
                siblings.close()
            await asyncio.sleep(0)
