"""The first page: on to one's account, or to signing in."""

from starlette.responses import Response

from bough.pages.visit import Visit
from bough.pages.way_back import ACCOUNT, SIGN_IN


async def show(visit: Visit) -> Response:
    return visit.to(ACCOUNT if visit.signed else SIGN_IN)
