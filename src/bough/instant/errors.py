"""Errors of the instant API. Clients rely on the text of some messages."""

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
    hint: str | None = Field(None, description="How to fix the error.")
    code: str = ""
    request_id: str = Field("", description="The id of the request in the log.")


class InstantApiError(Exception):
    status = 400
    message = ""
    hint = ""


class MissingReferrer(InstantApiError):
    message = "Missing referrer"
    hint = 'Send {"ref": "my-tool"} in the body, or ?referrer=my-tool if the path contains your own UUID.'


class NoSuchDatabase(InstantApiError):
    """Also raised for a malformed id, and for an id that a new database cannot use for any reason."""

    message = NOT_FOUND
    hint = "Check the id. An unclaimed database is deleted when it expires. A new database needs an unused id."


class InvalidInstantRequest(InstantApiError):
    """The published API uses this status, although the client causes the error."""

    status = 500
    message = CREATE_FAILED
    hint = 'Send JSON: {"ref": "my-tool", "enable_logical_replication": false}, where ref is a string.'


class InstantApiRoute(APIRoute):
    """Converts all errors to the error body of this API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Awaitable[Response]] = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except InstantApiError as error:
                return _error_response(request, error.status, error.message, hint=error.hint)
            except PlatformError as error:
                response = _error_response(request, STATUS_BY_KIND[error.kind], error.public_message, code=error.code)
                if error.retry_after is not None:
                    response.headers["Retry-After"] = str(max(1, ceil(error.retry_after)))
                return response
            except HTTPException as error:
                return _error_response(request, error.status_code, str(error.detail))

        return handle_errors


def _error_response(request: Request, status: int, message: str, **other: str) -> Response:
    view = ErrorView(message=message, request_id=request.scope.get("request_id", ""), **other)
    return JSONResponse(view.model_dump(exclude_none=True), status)
