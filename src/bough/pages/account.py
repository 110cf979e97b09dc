"""The account page, which shows the user's projects, organizations, keys and browsers with forms to change them."""

from typing import Any

from starlette.responses import Response

from bough.control.people.accounts import SignedInUser
from bough.errors import PlatformError
from bough.pages import account_view
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH

_TEMPLATE = "account.html"
_DONE = {
    "joined": "You are now a member of the organization.",
    "organization": "The organization has been created. You are its admin.",
    "key-revoked": "The key has been revoked and no longer works.",
    "password": "The password has been changed. All other browsers are signed out.",
}


async def show(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    return request.render(
        _TEMPLATE, **await _load_values(request, signed_in_user, done=_DONE.get(request.query_param("done")))
    )


async def show_error(
    request: PageRequest, signed_in_user: SignedInUser, section: str, error: PlatformError, typed: str = ""
) -> Response:
    """Render the page with an error message in one of its sections."""
    return request.render_error(
        _TEMPLATE, error, **await _load_values(request, signed_in_user, section=section, typed=typed)
    )


def redirect_after(request: PageRequest, change: str) -> Response:
    return request.redirect(f"{ACCOUNT_PATH}?done={change}")


async def _load_values(
    request: PageRequest, signed_in_user: SignedInUser, *, done: str | None = None, section: str = "", typed: str = ""
) -> dict[str, Any]:
    view = await account_view.read(request.services, request.context(signed_in_user, "account"), signed_in_user)
    return {"view": view, "done": done, "section": section, "typed": typed}
