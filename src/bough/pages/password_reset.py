"""Resetting a forgotten password: sends a mail with a link to the page that sets a new one."""

from starlette.responses import Response

from bough.control.people.passwords import find_password_link, request_password_reset, reset_password
from bough.domain.one_time_link import OneTimeLink
from bough.errors import NotFound, PlatformError
from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH


async def show(request: PageRequest) -> Response:
    return request.render("forgot.html", email="")


async def send_link(request: PageRequest) -> Response:
    email = request.form.text("email")
    try:
        recipient = await request_password_reset(request.services, request.client, email)
    except PlatformError as error:
        return request.render_error("forgot.html", error, email=email)
    return request.render("check_mail.html", email=recipient, to="set a password", return_path=ACCOUNT_PATH)


async def show_reset(request: PageRequest) -> Response:
    token = request.query_param("token")
    return request.render("reset.html", token=token, email=(await _get_link(request, token)).email)


async def reset(request: PageRequest) -> Response:
    token = request.form.text("token")
    email = (await _get_link(request, token)).email
    try:
        session_token = await reset_password(request.services, request.client, token, request.form.secret("password"))
    except PlatformError as error:
        return request.render_error("reset.html", error, token=token, email=email)
    return request.redirect_with_session(ACCOUNT_PATH, session_token)


async def _get_link(request: PageRequest, token: str) -> OneTimeLink:
    link = await find_password_link(request.services, request.client, token)
    if link is None:
        raise NotFound("This link has been used or has expired. Request a new one on the sign-in page.")
    return link
