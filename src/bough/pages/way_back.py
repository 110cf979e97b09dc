"""Where somebody goes on after signing in: one of a few pages of ours, whatever the address says."""

import re
from urllib.parse import urlencode

from bough.ids import InstantId

ACCOUNT = "/account"
SIGN_IN = "/signin"
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OURS = re.compile(rf"/account|/invitation\?token=[A-Za-z0-9_-]{{1,100}}|/claim/{_UUID}")


def ours(path: str, otherwise: str = ACCOUNT) -> str:
    return path if _OURS.fullmatch(path) else otherwise


def claim(instant_id: InstantId) -> str:
    return f"/claim/{instant_id}"


def and_back(path: str, back: str) -> str:
    """The path, which leads on to another one in the end."""
    return path if back == ACCOUNT else f"{path}?{urlencode({'next': back}, safe='/')}"


def invitation(token: str) -> str:
    return ours(f"/invitation?token={token}")
