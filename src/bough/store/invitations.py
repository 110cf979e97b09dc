"""Named queries on invitations. One that was accepted, taken back or replaced is gone."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.invitation import Invitation
from bough.ids import InvitationId, OrganizationId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import invitations

_LIVE = invitations.c.expires_at > sa.bindparam("now", type_=invitations.c.expires_at.type)
_ONE = sa.select(invitations).where(same(invitations.c.id), _LIVE)
_BY_LINK = sa.select(invitations).where(same(invitations.c.digest), _LIVE)
_OLDEST_FIRST = (invitations.c.invited_at, invitations.c.id)
_OF = sa.select(invitations).where(same(invitations.c.org_id), _LIVE).order_by(*_OLDEST_FIRST)
_FOR = sa.select(invitations).where(same(invitations.c.email), _LIVE).order_by(*_OLDEST_FIRST)


class Invitations(Queries):
    async def put(self, invitation: Invitation) -> None:
        """In place of an earlier one to the same address."""
        await self._run(
            sa.delete(invitations).where(same(invitations.c.org_id), same(invitations.c.email)),
            org_id=invitation.org_id,
            email=invitation.email,
        )
        await self._insert(invitations, columns_of(invitation))

    async def get(self, invitation_id: InvitationId, now: datetime) -> Invitation | None:
        row = await self._one(_ONE, id=invitation_id, now=now)
        return rebuild(Invitation, row) if row else None

    async def by_link(self, digest: str, now: datetime) -> Invitation | None:
        row = await self._one(_BY_LINK, digest=digest, now=now)
        return rebuild(Invitation, row) if row else None

    async def of(self, org_id: OrganizationId, now: datetime) -> list[Invitation]:
        return [rebuild(Invitation, row) for row in await self._all(_OF, org_id=org_id, now=now)]

    async def addressed_to(self, email: str, now: datetime) -> list[Invitation]:
        return [rebuild(Invitation, row) for row in await self._all(_FOR, email=email, now=now)]

    async def remove(self, invitation_id: InvitationId) -> int:
        """How many there were: of two who accept it at once, one gets 1."""
        return await self._run(sa.delete(invitations).where(same(invitations.c.id)), id=invitation_id)

    async def forget_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(invitations).where(invitations.c.expires_at <= now))
