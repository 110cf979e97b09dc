"""Sign up: a form, a mail, and the page that the mail leads to.

Programs that look through mails follow links, so opening that page does nothing yet; its button does.
"""

from starlette.responses import Response

from bough.control.signing_up import SigningUp
from bough.domain.link import Link
from bough.errors import NotFound, PlatformError
from bough.pages import way_back
from bough.pages.visit import Visit

_TEMPLATE = "sign_up.html"
_FINISH = "finish.html"


async def show(visit: Visit) -> Response:
    back = way_back.ours(visit.asked("next"))
    if visit.parts.settings.sign_up != "open":
        return visit.page("sign_up_by_invitation.html", back=back)
    return visit.page(_TEMPLATE, email="", back=back)


async def ask(visit: Visit) -> Response:
    email, back = visit.form.line("email"), way_back.ours(visit.form.line("next"))
    if visit.parts.settings.sign_up != "open":
        return visit.page("sign_up_by_invitation.html", 403, back=back)
    try:
        asked = await SigningUp(visit.parts, visit.visitor).ask(email, "" if back == way_back.ACCOUNT else back)
    except PlatformError as error:
        return visit.again(_TEMPLATE, error, email=email, back=back)
    return visit.page("look_into_mail.html", email=asked, to="sign up", back=back)


async def show_finish(visit: Visit) -> Response:
    token, back = visit.asked("token"), way_back.ours(visit.asked("next"))
    return visit.page(_FINISH, token=token, email=(await _asked(visit, token)).email, name="", back=back)


async def finish(visit: Visit) -> Response:
    token, name, back = visit.form.line("token"), visit.form.line("name"), way_back.ours(visit.form.line("next"))
    email = (await _asked(visit, token)).email
    try:
        begun = await SigningUp(visit.parts, visit.visitor).finish(token, name, visit.form.secret("password"))
    except PlatformError as error:
        return visit.again(_FINISH, error, token=token, email=email, name=name, back=back)
    return visit.signed_in(back, begun)


async def _asked(visit: Visit, token: str) -> Link:
    link = await SigningUp(visit.parts, visit.visitor).asked(token)
    if link is None:
        raise NotFound("This link was used already, or is too old. Sign in, or sign up again to get another.")
    return link
