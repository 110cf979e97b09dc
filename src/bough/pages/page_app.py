"""A page at a path: what it shows, what it does with its form, and how errors look here.

Every answer leaves through here, so none lacks its headers, and no form is acted on that is not ours.
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
        visit = PageRequest(Request(scope, receive))
        response = await self._answer(visit)
        headers.add_security_headers(response, visit.services.settings)
        await response(scope, receive, send)

    async def _answer(self, visit: PageRequest) -> Response:
        try:
            await visit.load_session()
            visit.check_rate_limit()
            return await self._handled(visit)
        except PlatformError as error:
            response = _error_page(visit, STATUS_BY_KIND[error.kind], error.public_message)
            response.headers.update(errors.retry_headers(error))
        except HTTPException as error:
            response = _error_page(visit, error.status_code, str(error.detail))
            response.headers.update(error.headers or {})
        return response

    async def _handled(self, visit: PageRequest) -> Response:
        handler = self._handlers.get(visit.http_request.method)
        if handler is None:
            raise HTTPException(405, errors.METHOD_NOT_ALLOWED, {"Allow": ", ".join(self.methods)})
        if visit.http_request.method == "POST":
            await visit.read_form()
        return await handler(visit)


class _PageRoute(Route):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The edge counts requests by their route."""
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not Match.NONE else child


def page_route(path: str, *, get: Handler | None = None, post: Handler | None = None) -> Route:
    return _PageRoute(path, PageApp(get=get, post=post), name=path)


def require_sign_in(handler: SignedInHandler) -> Handler:
    """For those who signed in; others are asked to."""

    async def handle(visit: PageRequest) -> Response:
        if visit.signed_in_user is None:
            return visit.redirect(SIGN_IN_PATH)
        return await handler(visit, visit.signed_in_user)

    return handle


def _error_page(visit: PageRequest, status: int, sentence: str) -> Response:
    return visit.render("refused.html", status, heading=errors.heading(status), sentence=sentence)
