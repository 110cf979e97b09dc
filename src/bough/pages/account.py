"""The account page: everything of one's own at a glance, with a form beside each thing."""

from typing import Any

from starlette.responses import Response

from bough.control.accounts import SignedIn
from bough.errors import PlatformError
from bough.pages import account_contents
from bough.pages.visit import Visit
from bough.pages.way_back import ACCOUNT

_TEMPLATE = "account.html"
_DONE = {
    "joined": "You are a member of the organization now.",
    "organization": "The organization is made, and you are its admin.",
    "key-revoked": "The key is revoked: it does not work any more.",
    "password": "The password is changed, and all other browsers are signed out.",
}


async def show(visit: Visit, signed: SignedIn) -> Response:
    return visit.page(_TEMPLATE, **await _values(visit, signed, done=_DONE.get(visit.asked("done"))))


async def again(visit: Visit, signed: SignedIn, section: str, error: PlatformError, typed: str = "") -> Response:
    """With what went wrong in one of its sections."""
    return visit.again(_TEMPLATE, error, **await _values(visit, signed, section=section, typed=typed))


def done(visit: Visit, what: str) -> Response:
    return visit.to(f"{ACCOUNT}?done={what}")


async def _values(
    visit: Visit, signed: SignedIn, *, done: str | None = None, section: str = "", typed: str = ""
) -> dict[str, Any]:
    contents = await account_contents.read(visit.parts, visit.desk(signed, "account"), signed)
    return {"contents": contents, "done": done, "section": section, "typed": typed}
