"""The page on which the operator sets a password. `bough up` prints a one-time link to it."""

from starlette.responses import Response

from bough.control.people import passwords
from bough.domain.one_time_link import LinkPurpose
from bough.errors import NotFound, PlatformError
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH

_TEMPLATE = "welcome.html"
_NOT_FOUND = (
    "This link has been used or has expired. Sign in. If no link has been used yet, `bough up` prints a new one."
)


async def show(request: PageRequest) -> Response:
    token = request.query_param("token")
    if await passwords.find_password_link(request.services, request.client, token, LinkPurpose.WELCOME) is None:
        raise NotFound(_NOT_FOUND)
    return request.render(_TEMPLATE, token=token, email="")


async def set_operator_password(request: PageRequest) -> Response:
    token, email = request.form.text("token"), request.form.text("email")
    try:
        session_token = await passwords.set_operator_password(
            request.services, request.client, token, email, request.form.secret("password")
        )
    except NotFound:
        raise NotFound(_NOT_FOUND) from None
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, token=token, email=email)
    return request.redirect_with_session(ACCOUNT_PATH, session_token)
