"""The claim of an instant database: what it is, then a button, then the choice of an organization, then the end.

Looking changes nothing. Every form goes back to the page, which shows how far the claim has come; so it may be
reloaded, and a button pressed twice does no more than once.
"""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from bough.control.instant import claims
from bough.control.instant.claims import begin_claim, cancel_claim, complete_claim
from bough.control.people.accounts import SignedInUser
from bough.errors import NotFound, PlatformError
from bough.ids import InstantId, OrganizationId
from bough.pages import claim_contents, return_paths
from bough.pages.page_request import PageRequest

_TEMPLATE = "claim.html"
_Step = Callable[[PageRequest, SignedInUser, InstantId], Awaitable[None]]


async def show(request: PageRequest) -> Response:
    return request.render(_TEMPLATE, claim=await claim_contents.read(request, _id(request)), chosen="")


async def redirect_published_path(request: PageRequest) -> Response:
    """Published tools know the page by another address."""
    return request.redirect(return_paths.claim_path(_id(request)))


async def start(request: PageRequest) -> Response:
    return await _run_step(request, _begin)


async def confirm(request: PageRequest) -> Response:
    return await _run_step(request, _complete)


async def cancel(request: PageRequest) -> Response:
    return await _run_step(request, _cancel)


async def _run_step(visit: PageRequest, step: _Step) -> Response:
    """Whoever is not signed in any more finds the way to that on the page."""
    instant_id = _id(visit)
    try:
        if visit.signed_in_user is not None:
            await step(visit, visit.signed_in_user, instant_id)
    except NotFound:
        raise
    except PlatformError as error:
        contents = await claim_contents.read(visit, instant_id)
        return visit.render_error(_TEMPLATE, error, claim=contents, chosen=visit.form.text("org_id"))
    return visit.redirect(return_paths.claim_path(instant_id))


async def _begin(visit: PageRequest, signed: SignedInUser, instant_id: InstantId) -> None:
    await begin_claim(visit.context(signed, "begin_claim"), instant_id)


async def _complete(visit: PageRequest, signed: SignedInUser, instant_id: InstantId) -> None:
    org_id = OrganizationId.parse(visit.form.text("org_id"))
    await complete_claim(visit.context(signed, "claim_database"), instant_id, org_id)


async def _cancel(visit: PageRequest, signed: SignedInUser, instant_id: InstantId) -> None:
    await cancel_claim(visit.context(signed, "cancel_claim"), instant_id)


def _id(visit: PageRequest) -> InstantId:
    return claims.parse_instant_id(visit.http_request.path_params["id"])
