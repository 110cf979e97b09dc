"""Kind → status and heading: how an error looks as a page, or beside a form."""

from math import ceil

from bough.errors import PlatformError

_HEADINGS = {
    400: "That could not be read",
    401: "Sign in first",
    403: "That was not allowed",
    404: "Nothing is here",
    405: "That is not how this page is used",
    409: "Already taken",
    413: "That is too much",
    415: "That is no form of ours",
    422: "A rule does not allow it",
    423: "Something else is in the way",
    429: "Too many attempts",
    503: "Not now",
}
METHOD_NOT_ALLOWED = "Open it from the page that leads here."  # for those who come to it in another way


def heading(status: int) -> str:
    return _HEADINGS.get(status, "That did not work")


def retry_headers(error: PlatformError) -> dict[str, str]:
    return {} if error.retry_after is None else {"Retry-After": str(max(1, ceil(error.retry_after)))}
