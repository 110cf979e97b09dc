"""The home page redirects to the account page or to the sign-in page."""

from starlette.responses import Response

from bough.pages.page_request import PageRequest
from bough.pages.return_paths import ACCOUNT_PATH, SIGN_IN_PATH


async def show(request: PageRequest) -> Response:
    return request.redirect(ACCOUNT_PATH if request.signed_in_user else SIGN_IN_PATH)
