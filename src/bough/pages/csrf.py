"""Whether a form is one of ours, sent by whoever we showed it to.

Two answers must agree: the browser says that the form came from a page of ours, and the form holds a token that only
the holder of the cookie was shown.
"""

import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from bough.access.keys import Keys
from bough.config import Settings
from bough.control.platform import mail
from bough.errors import Denied

FIELD = "form_token"
_OWN = frozenset({"same-origin", "none"})  # none: typed or reloaded by the person


def create_token(keys: Keys, kind: str, secret: str) -> str:
    """For the forms of whoever holds the secret; no other digest of ours is made of such a text."""
    return keys.digest(f"form of {kind} {secret}")


def check_token(submitted: str, expected: str) -> None:
    if not hmac.compare_digest(submitted.encode(), expected.encode()):
        raise Denied("This page is too old, so nothing was changed. Reload it and try again.")


def check_origin(request: Request, settings: Settings) -> None:
    if not _is_own(request, settings):
        raise Denied(
            "This form did not come from a page of ours, so nothing was changed. "
            f"Open {mail.public_url(settings)} in your browser, reload the page there and try again."
        )


def _is_own(request: Request, settings: Settings) -> bool:
    said = request.headers.get("origin") or request.headers.get("referer")
    if said is None:
        return request.headers.get("sec-fetch-site") in _OWN
    try:
        parsed = urlsplit(said.lower())
    except ValueError:
        return False
    if settings.public_url:
        return f"{parsed.scheme}://{parsed.netloc}" == _origin(settings.public_url)
    return bool(parsed.netloc) and parsed.netloc == request.headers.get("host", "").lower()


def _origin(url: str) -> str:
    """As browsers write it: without the port that is the usual one."""
    scheme, _, rest = url.lower().rstrip("/").partition("://")
    return f"{scheme}://{rest.removesuffix({'http': ':80', 'https': ':443'}[scheme])}"
