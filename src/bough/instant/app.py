"""Everything that this API answers: its calls, and its own description."""

from fastapi import Request, Response
from starlette.routing import BaseRoute, Route

from bough.instant import openapi
from bough.instant.routes import PREFIX, router


def routes() -> list[BaseRoute]:
    return [Route(f"{PREFIX}/openapi.json", _description, name="openapi"), *router.routes]


async def _description(_request: Request) -> Response:
    return Response(openapi.text(), media_type="application/json")
