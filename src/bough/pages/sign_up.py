"""Signing up: a form, a mail with a link, and the page that the link opens.

Mail scanners open links, so the page itself changes nothing; only its form does.
"""

from starlette.responses import Response

from bough.control.people.sign_up import complete_sign_up, find_sign_up_link, request_sign_up
from bough.domain.one_time_link import OneTimeLink
from bough.errors import NotFound, PlatformError
from bough.pages import return_paths
from bough.pages.page_request import PageRequest

_TEMPLATE = "sign_up.html"
_FINISH = "finish.html"


async def show(request: PageRequest) -> Response:
    return_path = return_paths.sanitize_return_path(request.query_param("next"))
    if request.services.settings.sign_up != "open":
        return request.render("sign_up_by_invitation.html", return_path=return_path)
    return request.render(_TEMPLATE, email="", return_path=return_path)


async def send_link(request: PageRequest) -> Response:
    email, return_path = request.form.text("email"), return_paths.sanitize_return_path(request.form.text("next"))
    if request.services.settings.sign_up != "open":
        return request.render("sign_up_by_invitation.html", 403, return_path=return_path)
    try:
        recipient = await request_sign_up(
            request.services, request.client, email, "" if return_path == return_paths.ACCOUNT_PATH else return_path
        )
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, email=email, return_path=return_path)
    return request.render("check_mail.html", email=recipient, to="sign up", return_path=return_path)


async def show_finish(request: PageRequest) -> Response:
    token, return_path = request.query_param("token"), return_paths.sanitize_return_path(request.query_param("next"))
    return request.render(
        _FINISH, token=token, email=(await _get_link(request, token)).email, name="", return_path=return_path
    )


async def finish(request: PageRequest) -> Response:
    token, name, return_path = (
        request.form.text("token"),
        request.form.text("name"),
        return_paths.sanitize_return_path(request.form.text("next")),
    )
    email = (await _get_link(request, token)).email
    try:
        session_token = await complete_sign_up(
            request.services, request.client, token, name, request.form.secret("password")
        )
    except PlatformError as error:
        return request.render_error(_FINISH, error, token=token, email=email, name=name, return_path=return_path)
    return request.redirect_with_session(return_path, session_token)


async def _get_link(request: PageRequest, token: str) -> OneTimeLink:
    link = await find_sign_up_link(request.services, request.client, token)
    if link is None:
        raise NotFound("This link has been used or has expired. Sign in, or sign up again to get a new link.")
    return link
