"""Sign in; and sign out, here or everywhere."""

from starlette.responses import Response

from bough.control.people import sign_in as control_sign_in
from bough.control.people.accounts import SignedInUser
from bough.errors import PlatformError
from bough.pages import return_paths
from bough.pages.page_request import PageRequest

_TEMPLATE = "sign_in.html"


async def show(request: PageRequest) -> Response:
    back = return_paths.sanitize_return_path(request.query_param("next"))
    return request.redirect(back) if request.signed_in_user else request.render(_TEMPLATE, email="", back=back)


async def sign_in(request: PageRequest) -> Response:
    email, back = request.form.text("email"), return_paths.sanitize_return_path(request.form.text("next"))
    try:
        token = await control_sign_in.sign_in(request.services, request.client, email, request.form.secret("password"))
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, email=email, back=back)
    return request.redirect_with_session(back, token)


async def sign_out(request: PageRequest) -> Response:
    """Somebody who signed out to be somebody else goes back to what they wanted."""
    if request.signed_in_user is not None:
        await control_sign_in.sign_out(request.services, request.client, request.signed_in_user)
    return request.redirect_without_session(
        return_paths.sanitize_return_path(request.form.text("next"), return_paths.SIGN_IN_PATH)
    )


async def sign_out_everywhere(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    await control_sign_in.sign_out_everywhere(request.services, request.client, signed_in_user)
    return request.redirect_without_session(return_paths.SIGN_IN_PATH)
