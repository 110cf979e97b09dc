"""A page at a path: what it shows, what it does with its form, and how errors look here.

Every answer leaves through here, so none lacks its headers, and no form is acted on that is not ours.
"""

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from bough.control.accounts import SignedIn
from bough.errors import PlatformError
from bough.http_statuses import STATUS
from bough.pages import headers, refusals
from bough.pages.visit import Visit
from bough.pages.way_back import SIGN_IN

Handler = Callable[[Visit], Awaitable[Response]]
PersonsHandler = Callable[[Visit, SignedIn], Awaitable[Response]]


class Page:
    def __init__(self, *, get: Handler | None = None, post: Handler | None = None) -> None:
        self._handlers = {method: handler for method, handler in (("GET", get), ("POST", post)) if handler}
        if get is not None:
            self._handlers["HEAD"] = get

    @property
    def methods(self) -> list[str]:
        return sorted(self._handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(Request(scope, receive))
        response = await self._answer(visit)
        headers.add(response, visit.parts.settings)
        await response(scope, receive, send)

    async def _answer(self, visit: Visit) -> Response:
        try:
            await visit.recognise()
            visit.take()
            return await self._handled(visit)
        except PlatformError as error:
            response = _refused(visit, STATUS[error.kind], error.public)
            response.headers.update(refusals.headers(error))
        except HTTPException as error:
            response = _refused(visit, error.status_code, str(error.detail))
            response.headers.update(error.headers or {})
        return response

    async def _handled(self, visit: Visit) -> Response:
        handler = self._handlers.get(visit.request.method)
        if handler is None:
            raise HTTPException(405, refusals.METHOD, {"Allow": ", ".join(self.methods)})
        if visit.request.method == "POST":
            await visit.read_form()
        return await handler(visit)


class _PageRoute(Route):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The edge counts requests by their route."""
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not Match.NONE else child


def at(path: str, *, get: Handler | None = None, post: Handler | None = None) -> Route:
    return _PageRoute(path, Page(get=get, post=post), name=path)


def of_a_person(handler: PersonsHandler) -> Handler:
    """For those who signed in; others are asked to."""

    async def handle(visit: Visit) -> Response:
        if visit.signed is None:
            return visit.to(SIGN_IN)
        return await handler(visit, visit.signed)

    return handle


def _refused(visit: Visit, status: int, sentence: str) -> Response:
    return visit.page("refused.html", status, heading=refusals.heading(status), sentence=sentence)
