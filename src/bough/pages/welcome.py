"""The operator's first page: the link that `bough up` prints leads here, once."""

from starlette.responses import Response

from bough.control.people import passwords
from bough.domain.one_time_link import LinkPurpose
from bough.errors import NotFound, PlatformError
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH

_TEMPLATE = "welcome.html"
_GONE = "This link was used already, or is too old. Sign in. While nobody has used one, `bough up` prints another."


async def show(request: PageRequest) -> Response:
    token = request.query_param("token")
    if await passwords.find_password_link(request.services, request.client, token, LinkPurpose.WELCOME) is None:
        raise NotFound(_GONE)
    return request.render(_TEMPLATE, token=token, email="")


async def set_operator_password(request: PageRequest) -> Response:
    token, email = request.form.text("token"), request.form.text("email")
    try:
        session_token = await passwords.set_operator_password(
            request.services, request.client, token, email, request.form.secret("password")
        )
    except NotFound:
        raise NotFound(_GONE) from None
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, token=token, email=email)
    return request.redirect_with_session(ACCOUNT_PATH, session_token)
