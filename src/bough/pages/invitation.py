"""An invitation, as the link in its mail shows it.

Whoever has the link reads the mail of the address, so they may know whether the address has an account.
"""

from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from bough.control.people.invitations import accept_invitation
from bough.control.people.sign_up import accept_invitation_as_new_user, find_invitation
from bough.domain.invitation import Invitation
from bough.errors import Denied, NotFound, PlatformError
from bough.pages import return_paths
from bough.pages.page_request import PageRequest

_GONE = "This invitation was used already, taken back, or is too old. Ask whoever invited you for another."
ViewerStatus = Literal["themselves", "another", "absent", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationDetails:
    """An invitation with what a page says of it; `guest` is who looks at it."""

    token: str
    invitation: Invitation
    organization: str
    inviter: str
    viewer: ViewerStatus

    @property
    def return_path(self) -> str:
        return return_paths.invitation_path(self.token)


async def show(request: PageRequest) -> Response:
    invited = await _get_invitation(request, request.query_param("token"))
    return request.render("invitation.html", invited=invited, name="")


async def accept(request: PageRequest) -> Response:
    invited, name = await _get_invitation(request, request.form.text("token")), request.form.text("name")
    try:
        return await _accepted(request, invited, name)
    except NotFound:
        raise NotFound(_GONE) from None
    except PlatformError as error:
        return request.render_error("invitation.html", error, invited=invited, name=name)


async def _accepted(visit: PageRequest, invited: InvitationDetails, name: str) -> Response:
    if visit.signed_in_user is not None and invited.viewer == "themselves":
        await accept_invitation(visit.context(visit.signed_in_user, "accept_invitation"), invited.invitation.id)
        return visit.redirect(f"{return_paths.ACCOUNT_PATH}?done=joined")
    if invited.viewer == "new":
        session_token = await accept_invitation_as_new_user(
            visit.services, visit.client, invited.token, name, visit.form.secret("password")
        )
        return visit.redirect_with_session(return_paths.ACCOUNT_PATH, session_token)
    raise Denied(f"This invitation is for {invited.invitation.email}. Sign in with that address to accept it.")


async def _get_invitation(visit: PageRequest, token: str) -> InvitationDetails:
    found = await find_invitation(visit.services, visit.client, token)
    if found is None:
        raise NotFound(_GONE)
    async with visit.services.store.read() as rows:
        organization = await rows.organizations.get(found.org_id)
        inviter = await rows.users.get(found.invited_by)
        holder = await rows.users.get_by_email(found.email)
    if organization is None:
        raise NotFound(_GONE)
    return InvitationDetails(
        token=token,
        invitation=found,
        organization=organization.name,
        inviter=inviter.email if inviter else "",
        viewer=_viewer_status(visit, found, has_account=holder is not None),
    )


def _viewer_status(visit: PageRequest, invitation: Invitation, *, has_account: bool) -> ViewerStatus:
    if visit.signed_in_user is not None:
        return "themselves" if visit.signed_in_user.user.email == invitation.email else "another"
    return "absent" if has_account else "new"
