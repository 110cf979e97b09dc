"""The operator's first page: the link that `bough up` prints leads here, once."""

from starlette.responses import Response

from bough.control.setting_passwords import SettingPasswords
from bough.domain.link import Purpose
from bough.errors import NotFound, PlatformError
from bough.pages.visit import Visit
from bough.pages.way_back import ACCOUNT

_TEMPLATE = "welcome.html"
_GONE = "This link was used already, or is too old. Sign in. While nobody has used one, `bough up` prints another."


async def show(visit: Visit) -> Response:
    token = visit.asked("token")
    if await SettingPasswords(visit.parts, visit.visitor).asked(token, Purpose.WELCOME) is None:
        raise NotFound(_GONE)
    return visit.page(_TEMPLATE, token=token, email="")


async def begin(visit: Visit) -> Response:
    token, email = visit.form.line("token"), visit.form.line("email")
    setting = SettingPasswords(visit.parts, visit.visitor)
    try:
        begun = await setting.welcome(token, email, visit.form.secret("password"))
    except NotFound:
        raise NotFound(_GONE) from None
    except PlatformError as error:
        return visit.again(_TEMPLATE, error, token=token, email=email)
    return visit.signed_in(ACCOUNT, begun)
