"""Sign up: a form, a mail, and the page that the mail leads to.

Programs that look through mails follow links, so opening that page does nothing yet; its button does.
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
    back = return_paths.sanitize_return_path(request.query_param("next"))
    if request.services.settings.sign_up != "open":
        return request.render("sign_up_by_invitation.html", back=back)
    return request.render(_TEMPLATE, email="", back=back)


async def send_link(request: PageRequest) -> Response:
    email, back = request.form.text("email"), return_paths.sanitize_return_path(request.form.text("next"))
    if request.services.settings.sign_up != "open":
        return request.render("sign_up_by_invitation.html", 403, back=back)
    try:
        asked = await request_sign_up(
            request.services, request.client, email, "" if back == return_paths.ACCOUNT_PATH else back
        )
    except PlatformError as error:
        return request.render_error(_TEMPLATE, error, email=email, back=back)
    return request.render("look_into_mail.html", email=asked, to="sign up", back=back)


async def show_finish(request: PageRequest) -> Response:
    token, back = request.query_param("token"), return_paths.sanitize_return_path(request.query_param("next"))
    return request.render(_FINISH, token=token, email=(await _get_link(request, token)).email, name="", back=back)


async def finish(request: PageRequest) -> Response:
    token, name, back = (
        request.form.text("token"),
        request.form.text("name"),
        return_paths.sanitize_return_path(request.form.text("next")),
    )
    email = (await _get_link(request, token)).email
    try:
        begun = await complete_sign_up(request.services, request.client, token, name, request.form.secret("password"))
    except PlatformError as error:
        return request.render_error(_FINISH, error, token=token, email=email, name=name, back=back)
    return request.redirect_with_session(back, begun)


async def _get_link(visit: PageRequest, token: str) -> OneTimeLink:
    link = await find_sign_up_link(visit.services, visit.client, token)
    if link is None:
        raise NotFound("This link was used already, or is too old. Sign in, or sign up again to get another.")
    return link
