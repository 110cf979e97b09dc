"""The claim page of an instant database: start the claim, choose an organization, confirm.

Opening the page changes nothing. Every form redirects to the page, which shows the state of the claim, so reloading it
or pressing a button twice is harmless.
"""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from bough.control.instant import claims
from bough.control.instant.claims import begin_claim, cancel_claim, complete_claim
from bough.control.people.accounts import SignedInUser
from bough.errors import NotFound, PlatformError
from bough.ids import InstantId, OrganizationId
from bough.pages import claim_view, return_paths
from bough.pages.page_request import PageRequest

_TEMPLATE = "claim.html"
_Step = Callable[[PageRequest, SignedInUser, InstantId], Awaitable[None]]


async def show(request: PageRequest) -> Response:
    return request.render(_TEMPLATE, claim=await claim_view.read(request, _id(request)), chosen="")


async def redirect_published_path(request: PageRequest) -> Response:
    """Published tools use another URL for the page."""
    return request.redirect(return_paths.claim_path(_id(request)))


async def start(request: PageRequest) -> Response:
    return await _run_step(request, _begin)


async def confirm(request: PageRequest) -> Response:
    return await _run_step(request, _complete)


async def cancel(request: PageRequest) -> Response:
    return await _run_step(request, _cancel)


async def _run_step(request: PageRequest, step: _Step) -> Response:
    """Do nothing if the user is no longer signed in; the page then offers to sign in."""
    instant_id = _id(request)
    try:
        if request.signed_in_user is not None:
            await step(request, request.signed_in_user, instant_id)
    except NotFound:
        raise
    except PlatformError as error:
        view = await claim_view.read(request, instant_id)
        return request.render_error(_TEMPLATE, error, claim=view, chosen=request.form.text("org_id"))
    return request.redirect(return_paths.claim_path(instant_id))


async def _begin(request: PageRequest, signed_in_user: SignedInUser, instant_id: InstantId) -> None:
    await begin_claim(request.context(signed_in_user, "begin_claim"), instant_id)


async def _complete(request: PageRequest, signed_in_user: SignedInUser, instant_id: InstantId) -> None:
    org_id = OrganizationId.parse(request.form.text("org_id"))
    await complete_claim(request.context(signed_in_user, "claim_database"), instant_id, org_id)


async def _cancel(request: PageRequest, signed_in_user: SignedInUser, instant_id: InstantId) -> None:
    await cancel_claim(request.context(signed_in_user, "cancel_claim"), instant_id)


def _id(request: PageRequest) -> InstantId:
    return claims.parse_instant_id(request.http_request.path_params["id"])
