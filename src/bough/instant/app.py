"""The routes of the instant API and of its OpenAPI document."""

from fastapi import Request, Response
from starlette.routing import BaseRoute, Route

from bough.instant import openapi
from bough.instant.routes import PREFIX, router


def routes() -> list[BaseRoute]:
    return [Route(f"{PREFIX}/openapi.json", _openapi_json, name="openapi"), *router.routes]


async def _openapi_json(_request: Request) -> Response:
    return Response(openapi.render(), media_type="application/json")
