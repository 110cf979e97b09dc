"""Where a user continues after signing in. Only a few pages are allowed, to prevent open redirects."""

import re
from urllib.parse import urlencode

from bough.ids import InstantId

ACCOUNT_PATH = "/account"
SIGN_IN_PATH = "/signin"
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ALLOWED = re.compile(rf"/account|/invitation\?token=[A-Za-z0-9_-]{{1,100}}|/claim/{_UUID}")


def sanitize_return_path(path: str, default: str = ACCOUNT_PATH) -> str:
    return path if _ALLOWED.fullmatch(path) else default


def claim_path(instant_id: InstantId) -> str:
    return f"/claim/{instant_id}"


def add_return_path(path: str, return_path: str) -> str:
    """Add the page to return to afterwards."""
    return path if return_path == ACCOUNT_PATH else f"{path}?{urlencode({'next': return_path}, safe='/')}"


def invitation_path(token: str) -> str:
    return sanitize_return_path(f"/invitation?token={token}")
