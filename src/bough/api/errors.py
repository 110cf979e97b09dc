"""Kind → status and body. Every failure leaves through here with the same shape."""

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

_HTTP_SENTENCES = {
    400: "The body could not be read. Send JSON in UTF-8.",
    404: "There is no such path in this API. The paths are listed at /api/v2/docs.",
    405: "This path does not take this method. The methods are listed at /api/v2/docs.",
}

INTERNAL_ERROR_MESSAGE = "An internal error happened. The log has it under this request id."


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
    told = to_json({**error.model_dump(), **details})
    return Response(told, status_code=status, media_type="application/json", headers=headers)


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
    message = _HTTP_SENTENCES.get(error.status_code, str(error.detail))
    response = error_response(_request_id(request), error.status_code, message)
    response.headers.update(error.headers or {})
    return response


async def handle_crash(request: Request, _error: Exception) -> Response:
    """The framework would answer in plain text. It raises the error again, so the edge logs it."""
    return error_response(_request_id(request), 500, INTERNAL_ERROR_MESSAGE)


def _describe_errors(error: RequestValidationError) -> str:
    """The first few faults, each with the place it is at."""
    faults = []
    for fault in error.errors()[:3]:
        where = ".".join(str(part) for part in fault["loc"] if part != "body")
        message = str(fault["msg"]).removeprefix("Value error, ")
        if fault["type"] == "json_invalid":
            where, message = "", "the body is not valid JSON"
        faults.append(f"{where}: {message}" if where else message)
    return "The request is not valid: " + "; ".join(faults) + "."
