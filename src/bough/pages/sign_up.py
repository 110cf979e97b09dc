"""Sign up: a form, a mail, and the page that the mail leads to.

Programs that look through mails follow links, so opening that page does nothing yet; its button does.
"""

from starlette.responses import Response

from bough.control.signing_up import SigningUp
from bough.domain.link import Link
from bough.errors import NotFound, PlatformError
from bough.pages.visit import Visit
from bough.pages.way_back import ACCOUNT

_TEMPLATE = "sign_up.html"
_FINISH = "finish.html"


async def show(visit: Visit) -> Response:
    if visit.parts.settings.sign_up != "open":
        return visit.page("sign_up_by_invitation.html")
    return visit.page(_TEMPLATE, email="")


async def ask(visit: Visit) -> Response:
    email = visit.form.line("email")
    if visit.parts.settings.sign_up != "open":
        return visit.page("sign_up_by_invitation.html", 403)
    try:
        asked = await SigningUp(visit.parts, visit.visitor).ask(email)
    except PlatformError as error:
        return visit.again(_TEMPLATE, error, email=email)
    return visit.page("look_into_mail.html", email=asked, to="sign up")


async def show_finish(visit: Visit) -> Response:
    token = visit.asked("token")
    return visit.page(_FINISH, token=token, email=(await _asked(visit, token)).email, name="")


async def finish(visit: Visit) -> Response:
    token, name = visit.form.line("token"), visit.form.line("name")
    email = (await _asked(visit, token)).email
    try:
        begun = await SigningUp(visit.parts, visit.visitor).finish(token, name, visit.form.secret("password"))
    except PlatformError as error:
        return visit.again(_FINISH, error, token=token, email=email, name=name)
    return visit.signed_in(ACCOUNT, begun)


async def _asked(visit: Visit, token: str) -> Link:
    link = await SigningUp(visit.parts, visit.visitor).asked(token)
    if link is None:
        raise NotFound("This link was used already, or is too old. Sign in, or sign up again to get another.")
    return link
