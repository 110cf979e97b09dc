"""The claim of an instant database: what it is, then a button, then the choice of an organization, then the end.

Looking changes nothing. Every form goes back to the page, which shows how far the claim has come; so it may be
reloaded, and a button pressed twice does no more than once.
"""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from bough.control import claims
from bough.control.accounts import SignedIn
from bough.control.claims import Claims
from bough.errors import NotFound, PlatformError
from bough.ids import InstantId, OrganizationId
from bough.pages import claim_contents, way_back
from bough.pages.visit import Visit

_TEMPLATE = "claim.html"
_Step = Callable[[Visit, SignedIn, InstantId], Awaitable[None]]


async def show(visit: Visit) -> Response:
    return visit.page(_TEMPLATE, claim=await claim_contents.read(visit, _id(visit)), chosen="")


async def lead_here(visit: Visit) -> Response:
    """Published tools know the page by another address."""
    return visit.to(way_back.claim(_id(visit)))


async def start(visit: Visit) -> Response:
    return await _taken(visit, _begin)


async def confirm(visit: Visit) -> Response:
    return await _taken(visit, _complete)


async def cancel(visit: Visit) -> Response:
    return await _taken(visit, _cancel)


async def _taken(visit: Visit, step: _Step) -> Response:
    """Whoever is not signed in any more finds the way to that on the page."""
    instant_id = _id(visit)
    try:
        if visit.signed is not None:
            await step(visit, visit.signed, instant_id)
    except NotFound:
        raise
    except PlatformError as error:
        contents = await claim_contents.read(visit, instant_id)
        return visit.again(_TEMPLATE, error, claim=contents, chosen=visit.form.line("org_id"))
    return visit.to(way_back.claim(instant_id))


async def _begin(visit: Visit, signed: SignedIn, instant_id: InstantId) -> None:
    await Claims(visit.desk(signed, "begin_claim")).begin(instant_id)


async def _complete(visit: Visit, signed: SignedIn, instant_id: InstantId) -> None:
    org_id = OrganizationId.parse(visit.form.line("org_id"))
    await Claims(visit.desk(signed, "claim_database")).complete(instant_id, org_id)


async def _cancel(visit: Visit, signed: SignedIn, instant_id: InstantId) -> None:
    await Claims(visit.desk(signed, "cancel_claim")).cancel(instant_id)


def _id(visit: Visit) -> InstantId:
    return claims.parsed(visit.request.path_params["id"])
