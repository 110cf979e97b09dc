"""Named queries on invitations. Accepted, withdrawn and replaced invitations are deleted."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.invitation import Invitation
from bough.ids import InvitationId, OrganizationId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import invitations

_LIVE = invitations.c.expires_at > sa.bindparam("now", type_=invitations.c.expires_at.type)
_ONE = sa.select(invitations).where(equals_param(invitations.c.id), _LIVE)
_BY_DIGEST = sa.select(invitations).where(equals_param(invitations.c.digest), _LIVE)
_OLDEST_FIRST = (invitations.c.invited_at, invitations.c.id)
_IN_ORGANIZATION = sa.select(invitations).where(equals_param(invitations.c.org_id), _LIVE).order_by(*_OLDEST_FIRST)
_BY_EMAIL = sa.select(invitations).where(equals_param(invitations.c.email), _LIVE).order_by(*_OLDEST_FIRST)


class Invitations(Queries):
    async def replace(self, invitation: Invitation) -> None:
        """Replace an earlier invitation to the same address."""
        await self._run(
            sa.delete(invitations).where(equals_param(invitations.c.org_id), equals_param(invitations.c.email)),
            org_id=invitation.org_id,
            email=invitation.email,
        )
        await self._insert(invitations, to_columns(invitation))

    async def get(self, invitation_id: InvitationId, now: datetime) -> Invitation | None:
        row = await self._one(_ONE, id=invitation_id, now=now)
        return from_row(Invitation, row) if row else None

    async def get_by_digest(self, digest: str, now: datetime) -> Invitation | None:
        row = await self._one(_BY_DIGEST, digest=digest, now=now)
        return from_row(Invitation, row) if row else None

    async def list_in_organization(self, org_id: OrganizationId, now: datetime) -> list[Invitation]:
        return [from_row(Invitation, row) for row in await self._all(_IN_ORGANIZATION, org_id=org_id, now=now)]

    async def list_by_email(self, email: str, now: datetime) -> list[Invitation]:
        return [from_row(Invitation, row) for row in await self._all(_BY_EMAIL, email=email, now=now)]

    async def remove(self, invitation_id: InvitationId) -> int:
        """Return the number of deleted rows: if two requests accept an invitation at once, only one gets 1."""
        return await self._run(sa.delete(invitations).where(equals_param(invitations.c.id)), id=invitation_id)

    async def delete_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(invitations).where(invitations.c.expires_at <= now))
