"""Headings of error pages, and headers of error responses."""

from math import ceil

from bough.errors import PlatformError

_HEADINGS = {
    400: "Invalid request",
    401: "Sign in to continue",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    415: "Unsupported form",
    422: "Not possible",
    423: "Another operation is in progress",
    429: "Too many attempts",
    503: "Temporarily unavailable",
}
METHOD_NOT_ALLOWED = "This address only accepts a form. Open the page that contains the form."


def heading(status: int) -> str:
    return _HEADINGS.get(status, "Something went wrong")


def retry_headers(error: PlatformError) -> dict[str, str]:
    return {} if error.retry_after is None else {"Retry-After": str(max(1, ceil(error.retry_after)))}
