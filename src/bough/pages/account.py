"""The account page: everything of one's own at a glance, with a form beside each thing."""

from typing import Any

from starlette.responses import Response

from bough.control.people.accounts import SignedInUser
from bough.errors import PlatformError
from bough.pages import account_contents
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH

_TEMPLATE = "account.html"
_DONE = {
    "joined": "You are a member of the organization now.",
    "organization": "The organization is made, and you are its admin.",
    "key-revoked": "The key is revoked: it does not work any more.",
    "password": "The password is changed, and all other browsers are signed out.",
}


async def show(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    return request.render(
        _TEMPLATE, **await _values(request, signed_in_user, done=_DONE.get(request.query_param("done")))
    )


async def show_error(
    request: PageRequest, signed_in_user: SignedInUser, section: str, error: PlatformError, typed: str = ""
) -> Response:
    """With what went wrong in one of its sections."""
    return request.render_error(
        _TEMPLATE, error, **await _values(request, signed_in_user, section=section, typed=typed)
    )


def redirect_after(request: PageRequest, change: str) -> Response:
    return request.redirect(f"{ACCOUNT_PATH}?done={change}")


async def _values(
    visit: PageRequest, signed: SignedInUser, *, done: str | None = None, section: str = "", typed: str = ""
) -> dict[str, Any]:
    contents = await account_contents.read(visit.services, visit.context(signed, "account"), signed)
    return {"contents": contents, "done": done, "section": section, "typed": typed}
