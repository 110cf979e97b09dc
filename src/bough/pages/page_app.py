"""Runs the handlers of pages and renders their errors.

All responses pass through here, which guarantees the security headers and the check of submitted forms.
"""

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from bough.control.people.accounts import SignedInUser
from bough.errors import PlatformError
from bough.http_statuses import STATUS_BY_KIND
from bough.pages import errors, headers
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import SIGN_IN_PATH

Handler = Callable[[PageRequest], Awaitable[Response]]
SignedInHandler = Callable[[PageRequest, SignedInUser], Awaitable[Response]]


class PageApp:
    def __init__(self, *, get: Handler | None = None, post: Handler | None = None) -> None:
        self._handlers = {method: handler for method, handler in (("GET", get), ("POST", post)) if handler}
        if get is not None:
            self._handlers["HEAD"] = get

    @property
    def methods(self) -> list[str]:
        return sorted(self._handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = PageRequest(Request(scope, receive))
        response = await self._respond(request)
        headers.add_security_headers(response, request.services.settings)
        await response(scope, receive, send)

    async def _respond(self, request: PageRequest) -> Response:
        try:
            await request.load_session()
            request.check_rate_limit()
            return await self._handle(request)
        except PlatformError as error:
            response = _error_page(request, STATUS_BY_KIND[error.kind], error.public_message)
            response.headers.update(errors.retry_headers(error))
        except HTTPException as error:
            response = _error_page(request, error.status_code, str(error.detail))
            response.headers.update(error.headers or {})
        return response

    async def _handle(self, request: PageRequest) -> Response:
        handler = self._handlers.get(request.http_request.method)
        if handler is None:
            raise HTTPException(405, errors.METHOD_NOT_ALLOWED, {"Allow": ", ".join(self.methods)})
        if request.http_request.method == "POST":
            await request.read_form()
        return await handler(request)


class _PageRoute(Route):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Set the route, by which the middleware counts requests."""
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not Match.NONE else child


def page_route(path: str, *, get: Handler | None = None, post: Handler | None = None) -> Route:
    return _PageRoute(path, PageApp(get=get, post=post), name=path)


def require_sign_in(handler: SignedInHandler) -> Handler:
    """Redirect to the sign-in page unless the user is signed in."""

    async def handle(request: PageRequest) -> Response:
        if request.signed_in_user is None:
            return request.redirect(SIGN_IN_PATH)
        return await handler(request, request.signed_in_user)

    return handle


def _error_page(request: PageRequest, status: int, message: str) -> Response:
    return request.render("error.html", status, heading=errors.heading(status), message=message)
