"""The page of an invitation, which the link in its mail opens.

Only the owner of the address gets the link, so the page may reveal whether the address has an account.
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

_NOT_FOUND = "This invitation has been used, was withdrawn, or has expired. Ask for a new invitation."
ViewerStatus = Literal["themselves", "another", "absent", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationDetails:
    """What the page shows. `viewer` tells who opened it."""

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
        return await _accept(request, invited, name)
    except NotFound:
        raise NotFound(_NOT_FOUND) from None
    except PlatformError as error:
        return request.render_error("invitation.html", error, invited=invited, name=name)


async def _accept(request: PageRequest, invited: InvitationDetails, name: str) -> Response:
    if request.signed_in_user is not None and invited.viewer == "themselves":
        await accept_invitation(request.context(request.signed_in_user, "accept_invitation"), invited.invitation.id)
        return request.redirect(f"{return_paths.ACCOUNT_PATH}?done=joined")
    if invited.viewer == "new":
        session_token = await accept_invitation_as_new_user(
            request.services, request.client, invited.token, name, request.form.secret("password")
        )
        return request.redirect_with_session(return_paths.ACCOUNT_PATH, session_token)
    raise Denied(f"This invitation is for {invited.invitation.email}. Sign in with that address to accept it.")


async def _get_invitation(request: PageRequest, token: str) -> InvitationDetails:
    invitation = await find_invitation(request.services, request.client, token)
    if invitation is None:
        raise NotFound(_NOT_FOUND)
    async with request.services.store.read() as rows:
        organization = await rows.organizations.get(invitation.org_id)
        inviter = await rows.users.get(invitation.invited_by)
        user = await rows.users.get_by_email(invitation.email)
    if organization is None:
        raise NotFound(_NOT_FOUND)
    return InvitationDetails(
        token=token,
        invitation=invitation,
        organization=organization.name,
        inviter=inviter.email if inviter else "",
        viewer=_viewer_status(request, invitation, has_account=user is not None),
    )


def _viewer_status(request: PageRequest, invitation: Invitation, *, has_account: bool) -> ViewerStatus:
    if request.signed_in_user is not None:
        return "themselves" if request.signed_in_user.user.email == invitation.email else "another"
    return "absent" if has_account else "new"
