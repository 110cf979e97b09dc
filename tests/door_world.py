"""A platform in this process with a gateway before it, which asks it as it would over the plane's socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import psycopg

import world
from bough.api.internal import Plane
from bough.gateway.plane import Access, Address, Report
from bough.gateway.worker import answers
from bough.ids import EndpointId
from bough.tasks.loop import Task
from gateway.doorway import Doorway

Session = psycopg.AsyncConnection[Any]


class PlaneHere:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def access(self, endpoint: EndpointId, role: str) -> Access:
        return Access.parse(_passed_on(await self._plane.access(_body(endpoint=endpoint, role=role))))

    async def wake(self, endpoint: EndpointId) -> Address:
        return Address(**_passed_on(await self._plane.wake(_body(endpoint=endpoint))))

    async def report(self, report: Report) -> Sequence[EndpointId]:
        return [EndpointId(text) for text in _passed_on(await self._plane.report(_body(**asdict(report))))["drop"]]


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _passed_on(answer: dict[str, Any]) -> dict[str, Any]:
    passed: dict[str, Any] = json.loads(json.dumps(answer))
    return passed


@dataclass
class Door:
    platform: world.Platform
    way: Doorway

    async def enter(self, made: dict[str, Any], *, pooled: bool = False, **more: Any) -> Session:
        given = made["connection_uris"][0]["connection_parameters"]
        host = given["pooler_host"] if pooled else given["host"]
        login = {"user": given["role"], "password": given["password"], "dbname": given["database"], **more}
        return await psycopg.AsyncConnection.connect(
            host=host, hostaddr="127.0.0.1", port=self.way.port, sslmode="require", autocommit=True, **login
        )

    async def keep(self, task: type[Task]) -> str:
        """One beat of a standing task, after gateways have reported; and the work that follows from it."""
        for rooms in self.way.rooms:
            await rooms.activity.report()
        every = [each for loop in self.platform.inner.loops for each in loop._due]
        sentence = await next(each for each in every if isinstance(each, task)).run()
        await self.platform.settle()
        return sentence


@asynccontextmanager
async def door(**settings: Any) -> AsyncIterator[Door]:
    async with world.platform(**settings) as platform:
        folder = platform.settings.gateway_folder
        folder.mkdir(parents=True, exist_ok=True)
        way = Doorway(folder, cast(Any, PlaneHere(platform.inner.plane)))
        way.open(1)
        for siblings, rooms in zip(way.siblings, way.rooms, strict=True):
            await siblings.listen(answers(rooms))
        try:
            yield Door(platform, way)
        finally:
            for server, siblings in zip(way.servers, way.siblings, strict=True):
                server.shut()
                await server.stop(1)
                server.rooms.pools.close()
                siblings.close()
            await asyncio.sleep(0)
