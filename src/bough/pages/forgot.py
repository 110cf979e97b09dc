"""Forgot the password: a mail with a link goes out, and the page that it leads to sets a new one."""

from starlette.responses import Response

from bough.control.setting_passwords import SettingPasswords
from bough.domain.link import Link
from bough.errors import NotFound, PlatformError
from bough.pages.visit import Visit
from bough.pages.way_back import ACCOUNT


async def show(visit: Visit) -> Response:
    return visit.page("forgot.html", email="")


async def ask(visit: Visit) -> Response:
    email = visit.form.line("email")
    try:
        asked = await SettingPasswords(visit.parts, visit.visitor).ask(email)
    except PlatformError as error:
        return visit.again("forgot.html", error, email=email)
    return visit.page("look_into_mail.html", email=asked, to="set a password", back=ACCOUNT)


async def show_reset(visit: Visit) -> Response:
    token = visit.asked("token")
    return visit.page("reset.html", token=token, email=(await _asked(visit, token)).email)


async def reset(visit: Visit) -> Response:
    token = visit.form.line("token")
    email = (await _asked(visit, token)).email
    try:
        begun = await SettingPasswords(visit.parts, visit.visitor).reset(token, visit.form.secret("password"))
    except PlatformError as error:
        return visit.again("reset.html", error, token=token, email=email)
    return visit.signed_in(ACCOUNT, begun)


async def _asked(visit: Visit, token: str) -> Link:
    link = await SettingPasswords(visit.parts, visit.visitor).asked(token)
    if link is None:
        raise NotFound("This link was used already, or is too old. Ask for another where you sign in.")
    return link
