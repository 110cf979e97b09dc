"""Protection against cross-site request forgery.

A form needs both an origin of this installation and a token that only the holder of the cookie has received.
"""

import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from bough.access.keys import Keys
from bough.config import Settings
from bough.control.platform import mail
from bough.errors import Denied

FIELD = "form_token"
_OWN_FETCH_SITES = frozenset({"same-origin", "none"})  # none: entered or reloaded by the user


def create_token(keys: Keys, kind: str, secret: str) -> str:
    """Derive the token from the secret. No other digest uses a text of this form."""
    return keys.digest(f"form of {kind} {secret}")


def check_token(submitted: str, expected: str) -> None:
    if not hmac.compare_digest(submitted.encode(), expected.encode()):
        raise Denied("This page has expired, so nothing was changed. Reload it and try again.")


def check_origin(request: Request, settings: Settings) -> None:
    if not _is_own_origin(request, settings):
        raise Denied(
            "This form was not sent from a page of this installation, so nothing was changed. "
            f"Open {mail.public_url(settings)} in your browser and try again."
        )


def _is_own_origin(request: Request, settings: Settings) -> bool:
    origin = request.headers.get("origin") or request.headers.get("referer")
    if origin is None:
        return request.headers.get("sec-fetch-site") in _OWN_FETCH_SITES
    try:
        parsed = urlsplit(origin.lower())
    except ValueError:
        return False
    if settings.public_url:
        return f"{parsed.scheme}://{parsed.netloc}" == _origin(settings.public_url)
    return bool(parsed.netloc) and parsed.netloc == request.headers.get("host", "").lower()


def _origin(url: str) -> str:
    """Format the origin as browsers do, without the default port."""
    scheme, _, rest = url.lower().rstrip("/").partition("://")
    return f"{scheme}://{rest.removesuffix({'http': ':80', 'https': ':443'}[scheme])}"
