"""What goes wrong, as this API says it: its messages are part of the requirement."""

from collections.abc import Awaitable, Callable, Coroutine
from math import ceil
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from bough.errors import PlatformError
from bough.http_statuses import STATUS_BY_KIND

NOT_FOUND = "Database not found"
CREATE_FAILED = "Failed to create the database."


class ErrorView(BaseModel):
    message: str
    hint: str | None = Field(None, description="What to do about it.")
    code: str = ""
    request_id: str = Field("", description="The log has the request under it.")


class InstantApiError(Exception):
    status = 400
    message = ""
    hint = ""


class MissingReferrer(InstantApiError):
    message = "Missing referrer"
    hint = 'Say who sends you: {"ref": "my-tool"} in the body, or ?referrer=my-tool after a UUID of your own.'


class NoSuchDatabase(InstantApiError):
    """Also for an id that is no id; and for one that cannot be given to a new database, whatever the reason."""

    message = NOT_FOUND
    hint = "Check the id. A database that nobody claims is deleted when it expires; a new one needs an id never used."


class InvalidInstantRequest(InstantApiError):
    """The requirement asks for this status, though the fault is the caller's."""

    status = 500
    message = CREATE_FAILED
    hint = (
        'Send JSON: {"ref": "my-tool", "enable_logical_replication": false}. The first is text, the second a boolean.'
    )


class InstantApiRoute(APIRoute):
    """Every failure leaves through here, in the shape of this API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Awaitable[Response]] = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except InstantApiError as refusal:
                return _body(request, refusal.status, refusal.message, hint=refusal.hint)
            except PlatformError as error:
                response = _body(request, STATUS_BY_KIND[error.kind], error.public_message, code=error.code)
                if error.retry_after is not None:
                    response.headers["Retry-After"] = str(max(1, ceil(error.retry_after)))
                return response
            except HTTPException as error:
                return _body(request, error.status_code, str(error.detail))

        return handled


def _body(request: Request, status: int, message: str, **other: str) -> Response:
    shown = ErrorView(message=message, request_id=request.scope.get("request_id", ""), **other)
    return JSONResponse(shown.model_dump(exclude_none=True), status)
