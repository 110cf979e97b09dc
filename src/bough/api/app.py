"""Assembles the HTTP application: routers, error handlers and middleware."""

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

import bough
from bough.api import documentation, errors, health
from bough.api.dependencies import IdempotentReplay
from bough.api.extensions import audit, maintenance, metrics, postgres_builds, postgres_extensions
from bough.api.extensions import invitations as own_invitations
from bough.api.extensions import organizations as own_organizations
from bough.api.extensions import statements as own_statements
from bough.api.extensions import users as accounts
from bough.api.middleware import RequestMiddleware
from bough.api.proxies import TrustedProxies
from bough.api.v2 import (
    api_keys,
    branches,
    connection_uris,
    consumption,
    databases,
    endpoints,
    invitations,
    members,
    operations,
    organization_keys,
    organizations,
    permissions,
    preload_libraries,
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
from bough.control.services import Services
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
    consumption.router,
    audit.router,
    accounts.router,
    postgres_builds.router,
    postgres_extensions.router,
    metrics.router,
    preload_libraries.router,
    own_statements.router,
    maintenance.router,
)


def create_app(services: Services, extra_routes: Sequence[BaseRoute] = ()) -> ASGIApp:
    """`extra_routes` are routes of other packages: the pages and the instant API."""
    app = create_bare_app()
    app.state.services = services
    app.state.extra_routes = extra_routes
    app.router.routes.extend(extra_routes)
    return RequestMiddleware(app, services.settings.body_limit, TrustedProxies(services.settings.trusted_proxies))


def create_bare_app() -> FastAPI:
    """Return the app without services, which is enough to generate the OpenAPI document."""
    app = FastAPI(
        title="Bough management API",
        version=bough.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            PlatformError: errors.handle_platform_error,
            RequestValidationError: errors.handle_validation_error,
            HTTPException: errors.handle_http_error,
            IdempotentReplay: _replay,
            Exception: errors.handle_crash,
        },
    )
    described = APIRouter(prefix=PREFIX, responses={"default": {"model": errors.GeneralError, "description": "Error"}})
    for router in _ROUTERS:
        described.include_router(router)
    app.include_router(described)
    app.include_router(health.router, include_in_schema=False)
    app.include_router(documentation.router, include_in_schema=False)
    return app


async def _replay(_request: Request, error: Exception) -> Response:
    assert isinstance(error, IdempotentReplay)
    headers = {"Idempotency-Replayed": "true"}
    return Response(error.body, status_code=error.status, media_type="application/json", headers=headers)
