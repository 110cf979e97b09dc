"""Sign in; and sign out, here or everywhere."""

from starlette.responses import Response

from bough.control.accounts import SignedIn
from bough.control.signing_in import SigningIn
from bough.errors import PlatformError
from bough.pages import way_back
from bough.pages.visit import Visit

_TEMPLATE = "sign_in.html"


async def show(visit: Visit) -> Response:
    back = way_back.ours(visit.asked("next"))
    return visit.to(back) if visit.signed else visit.page(_TEMPLATE, email="", back=back)


async def sign_in(visit: Visit) -> Response:
    email, back = visit.form.line("email"), way_back.ours(visit.form.line("next"))
    try:
        token = await SigningIn(visit.parts, visit.visitor).sign_in(email, visit.form.secret("password"))
    except PlatformError as error:
        return visit.again(_TEMPLATE, error, email=email, back=back)
    return visit.signed_in(back, token)


async def sign_out(visit: Visit) -> Response:
    """Somebody who signed out to be somebody else goes back to what they wanted."""
    if visit.signed is not None:
        await SigningIn(visit.parts, visit.visitor).sign_out(visit.signed)
    return visit.signed_out(way_back.ours(visit.form.line("next"), way_back.SIGN_IN))


async def sign_out_everywhere(visit: Visit, signed: SignedIn) -> Response:
    await SigningIn(visit.parts, visit.visitor).sign_out_everywhere(signed)
    return visit.signed_out(way_back.SIGN_IN)
