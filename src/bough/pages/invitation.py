"""An invitation, as the link in its mail shows it.

Whoever has the link reads the mail of the address, so they may know whether the address has an account.
"""

from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from bough.control.invitations import Invitations
from bough.control.signing_up import SigningUp
from bough.domain.invitation import Invitation
from bough.errors import Denied, NotFound, PlatformError
from bough.pages import way_back
from bough.pages.visit import Visit

_GONE = "This invitation was used already, taken back, or is too old. Ask whoever invited you for another."
Guest = Literal["themselves", "another", "absent", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invited:
    """An invitation with what a page says of it; `guest` is who looks at it."""

    token: str
    invitation: Invitation
    organization: str
    inviter: str
    guest: Guest

    @property
    def way_back(self) -> str:
        return way_back.invitation(self.token)


async def show(visit: Visit) -> Response:
    invited = await _invited(visit, visit.asked("token"))
    return visit.page("invitation.html", invited=invited, name="")


async def accept(visit: Visit) -> Response:
    invited, name = await _invited(visit, visit.form.line("token")), visit.form.line("name")
    try:
        return await _accepted(visit, invited, name)
    except NotFound:
        raise NotFound(_GONE) from None
    except PlatformError as error:
        return visit.again("invitation.html", error, invited=invited, name=name)


async def _accepted(visit: Visit, invited: Invited, name: str) -> Response:
    if visit.signed is not None and invited.guest == "themselves":
        await Invitations(visit.desk(visit.signed, "accept_invitation")).accept(invited.invitation.id)
        return visit.to(f"{way_back.ACCOUNT}?done=joined")
    if invited.guest == "new":
        signing_up = SigningUp(visit.parts, visit.visitor)
        return visit.signed_in(
            way_back.ACCOUNT, await signing_up.accept_as_new(invited.token, name, visit.form.secret("password"))
        )
    raise Denied(f"This invitation is for {invited.invitation.email}. Sign in with that address to accept it.")


async def _invited(visit: Visit, token: str) -> Invited:
    found = await SigningUp(visit.parts, visit.visitor).invitation(token)
    if found is None:
        raise NotFound(_GONE)
    async with visit.parts.store.read() as rows:
        organization = await rows.organizations.get(found.org_id)
        inviter = await rows.users.get(found.invited_by)
        holder = await rows.users.with_email(found.email)
    if organization is None:
        raise NotFound(_GONE)
    return Invited(
        token=token,
        invitation=found,
        organization=organization.name,
        inviter=inviter.email if inviter else "",
        guest=_guest(visit, found, has_account=holder is not None),
    )


def _guest(visit: Visit, invitation: Invitation, *, has_account: bool) -> Guest:
    if visit.signed is not None:
        return "themselves" if visit.signed.user.email == invitation.email else "another"
    return "absent" if has_account else "new"
