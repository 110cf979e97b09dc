"""Converts errors to HTTP responses. All error responses have the same body."""

from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bough.errors import PlatformError
from bough.http_statuses import STATUS_BY_KIND

_HTTP_MESSAGES = {
    400: "The body cannot be read. Send JSON in UTF-8.",
    404: "This path does not exist in the API. For the list of paths, see /api/v2/docs.",
    405: "This path does not support this method. For the list of methods, see /api/v2/docs.",
}

INTERNAL_ERROR_MESSAGE = "An internal error occurred. Look for this request id in the log."


class GeneralError(BaseModel):
    request_id: str
    code: str
    message: str


def error_response(
    request_id: str, status: int, message: str, code: str = "", retry_after: float | None = None, **details: Any
) -> Response:
    headers = {} if retry_after is None else {"Retry-After": str(max(1, ceil(retry_after)))}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    error = GeneralError(request_id=request_id, code=code, message=message)
    content = to_json({**error.model_dump(), **details})
    return Response(content, status_code=status, media_type="application/json", headers=headers)


def _request_id(request: Request) -> str:
    return str(request.scope.get("request_id", ""))


async def handle_platform_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlatformError)
    return error_response(
        _request_id(request),
        STATUS_BY_KIND[error.kind],
        error.public_message,
        error.code,
        error.retry_after,
        **error.details,
    )


async def handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(_request_id(request), 400, _describe_errors(error))


async def handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = _HTTP_MESSAGES.get(error.status_code, str(error.detail))
    response = error_response(_request_id(request), error.status_code, message)
    response.headers.update(error.headers or {})
    return response


async def handle_crash(request: Request, _error: Exception) -> Response:
    """The framework would send plain text. It raises the error again, and the middleware logs it."""
    return error_response(_request_id(request), 500, INTERNAL_ERROR_MESSAGE)


def _describe_errors(error: RequestValidationError) -> str:
    """Describe the first few errors with their locations."""
    messages = []
    for each in error.errors()[:3]:
        location = ".".join(str(part) for part in each["loc"] if part != "body")
        message = str(each["msg"]).removeprefix("Value error, ")
        if each["type"] == "json_invalid":
            location, message = "", "the body is not valid JSON"
        messages.append(f"{location}: {message}" if location else message)
    return "The request is not valid: " + "; ".join(messages) + "."
