"""Where somebody goes on after signing in: one of a few pages of ours, whatever the address says."""

import re

ACCOUNT = "/account"
SIGN_IN = "/signin"
_OURS = re.compile(r"/account|/invitation\?token=[A-Za-z0-9_-]{1,100}")


def ours(path: str, otherwise: str = ACCOUNT) -> str:
    return path if _OURS.fullmatch(path) else otherwise


def invitation(token: str) -> str:
    return ours(f"/invitation?token={token}")
