"""Signing in, and signing out in one browser or in all of them."""

from starlette.responses import Response

from bough.control.people import sign_in as control_sign_in
from bough.control.people.accounts import SignedInUser
from bough.errors import PlatformError
from bough.pages import return_paths
from bough.pages.page_request import PageRequest

_TEMPLATE = "sign_in.html"


async def show(request: PageRequest) -> Response:
    return_path = return_paths.sanitize_return_path(request.query_param("next"))
    return (
        request.redirect(return_path)
        if request.signed_in_user
        else request.render(_TEMPLATE, email="", return_path=return_path)
    )


async def sign_in(request: PageRequest) -> Response:
    email, return_path = request.form.text("email"), return_paths.sanitize_return_path(request.form.text("next"))
    try:
        token = await control_sign_in.sign_in(request.services, request.client, email, request.form.secret("password"))
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, email=email, return_path=return_path)
    return request.redirect_with_session(return_path, token)


async def sign_out(request: PageRequest) -> Response:
    """Return to the page from which the user signed out to switch accounts."""
    if request.signed_in_user is not None:
        await control_sign_in.sign_out(request.services, request.client, request.signed_in_user)
    return request.redirect_without_session(
        return_paths.sanitize_return_path(request.form.text("next"), return_paths.SIGN_IN_PATH)
    )


async def sign_out_everywhere(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    await control_sign_in.sign_out_everywhere(request.services, request.client, signed_in_user)
    return request.redirect_without_session(return_paths.SIGN_IN_PATH)
