"""The HTTP application: routers, error handlers, the edge around them."""

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

import bough
from bough.api import documents, errors, health
from bough.api.edge import Edge
from bough.api.given import Replay
from bough.api.ours import audit
from bough.api.ours import invitations as own_invitations
from bough.api.ours import organizations as own_organizations
from bough.api.ours import users as accounts
from bough.api.proxies import TrustedProxies
from bough.api.v2 import (
    api_keys,
    branches,
    connection_uris,
    databases,
    endpoints,
    invitations,
    members,
    operations,
    organization_keys,
    organizations,
    permissions,
    project_members,
    projects,
    recoveries,
    regions,
    restores,
    roles,
    snapshot_schedules,
    snapshots,
    transfers,
    users,
)
from bough.control.parts import Parts
from bough.errors import PlatformError

PREFIX = "/api/v2"
_ROUTERS = (
    projects.router,
    connection_uris.router,
    branches.router,
    restores.router,
    recoveries.router,
    roles.router,
    databases.router,
    endpoints.router,
    snapshots.router,
    snapshot_schedules.router,
    operations.router,
    api_keys.router,
    users.router,
    organizations.router,
    members.router,
    invitations.router,
    organization_keys.router,
    permissions.router,
    project_members.router,
    transfers.router,
    own_organizations.router,
    own_invitations.router,
    regions.router,
    audit.router,
    accounts.router,
)


def create_app(parts: Parts, guests: Sequence[BaseRoute] = ()) -> ASGIApp:
    """`guests` are routes of the rooms beside this one: pages, the instant API."""
    app = bare_app()
    app.state.parts = parts
    app.state.guests = guests
    app.router.routes.extend(guests)
    return Edge(app, parts.settings.body_limit, TrustedProxies(parts.settings.trusted_proxies))


def bare_app() -> FastAPI:
    """Routes without anything behind them: enough to describe the API."""
    app = FastAPI(
        title="Bough management API",
        version=bough.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            PlatformError: errors.platform_error,
            RequestValidationError: errors.validation_error,
            HTTPException: errors.http_error,
            Replay: _replay,
            Exception: errors.crash,
        },
    )
    described = APIRouter(prefix=PREFIX, responses={"default": {"model": errors.GeneralError, "description": "Error"}})
    for router in _ROUTERS:
        described.include_router(router)
    app.include_router(described)
    app.include_router(health.router, include_in_schema=False)
    app.include_router(documents.router, include_in_schema=False)
    return app


async def _replay(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Replay)
    headers = {"Idempotency-Replayed": "true"}
    return Response(error.body, status_code=error.status, media_type="application/json", headers=headers)
