"""The documentation of the API: the OpenAPI document, and an HTML page without scripts or external resources."""

import re
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from bough import openapi

router = APIRouter(prefix="/api/v2")
_templates = Environment(loader=PackageLoader("bough.api"), autoescape=select_autoescape(), trim_blocks=True)
_templates.filters["marked"] = lambda text: Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "X-Frame-Options": "DENY"}


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Describe the app's own routes, without the extra routes of other packages."""
    extra_routes = getattr(app.state, "extra_routes", ())
    own_routes = [route for route in app.routes if route not in extra_routes]
    description = "Projects, branches and computes of a self-hosted Postgres platform."
    return openapi.build_document(own_routes, title=app.title, version=app.version, description=description)


@cache
def render_openapi(app: FastAPI) -> str:
    return openapi.render_json(build_openapi(app))


@cache
def _page(app: FastAPI) -> str:
    document = build_openapi(app)
    return _templates.get_template("documentation.html").render(document=document, groups=_groups(document))


@router.get("/openapi.json")
async def openapi_json(request: Request) -> Response:
    return Response(render_openapi(request.app), media_type="application/json")


@router.get("/docs")
async def docs(request: Request) -> Response:
    return HTMLResponse(_page(request.app), headers=_HEADERS)


def _groups(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Group operations by their first tag, in the order of the routers."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append({"path": path, "method": method, **operation})
    return groups
