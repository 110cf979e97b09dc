"""Named queries on API keys."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.queries import Queries
from bough.store.row_mapping import from_row
from bough.store.tables import api_keys, members, organizations, users


@dataclass(frozen=True, slots=True)
class AuthenticatedKey:
    """An active key with the e-mail address of its creator and the organizations that it grants access to."""

    key: ApiKey
    email: str
    memberships: tuple[tuple[Organization, MemberRole | None], ...]  # with the user's role in each


_MEMBERSHIP_COLUMNS = tuple(column.label(f"org_{column.name}") for column in organizations.c)
_NOT_REVOKED = api_keys.c.revoked_at.is_(None)
_membership = sa.and_(members.c.user_id == api_keys.c.user_id, api_keys.c.kind == KeyKind.PERSONAL)
_AUTHENTICATED = (
    sa.select(
        *(column.label(f"key_{column.name}") for column in api_keys.c),
        *_MEMBERSHIP_COLUMNS,
        members.c.role.label("member_role"),
        users.c.email.label("user_email"),
    )
    .join(users, users.c.id == api_keys.c.user_id)
    .outerjoin(members, _membership)
    .outerjoin(organizations, organizations.c.id == sa.func.coalesce(api_keys.c.org_id, members.c.org_id))
    .where(api_keys.c.prefix == sa.bindparam("prefix"), _NOT_REVOKED)
    .order_by(organizations.c.created_at, organizations.c.id)
)


class ApiKeys(Queries):
    async def add(self, columns: Mapping[str, Any]) -> ApiKey:
        key_id = await self._insert(api_keys, dict(columns))
        row = await self._one(sa.select(api_keys).where(api_keys.c.id == key_id))
        assert row is not None
        return from_row(ApiKey, row)

    async def get_authenticated(self, prefix: str) -> AuthenticatedKey | None:
        """Use a single query, because every request needs it."""
        rows = await self._all(_AUTHENTICATED, prefix=prefix)
        if not rows:
            return None
        memberships = tuple(
            (from_row(Organization, row, "org_"), MemberRole(row["member_role"]) if row["member_role"] else None)
            for row in rows
            if row["org_id"] is not None
        )
        return AuthenticatedKey(from_row(ApiKey, rows[0], "key_"), rows[0]["user_email"], memberships)

    async def get_by_prefix(self, prefix: str) -> ApiKey | None:
        """Include revoked keys."""
        row = await self._one(sa.select(api_keys).where(api_keys.c.prefix == prefix))
        return from_row(ApiKey, row) if row else None

    async def is_active(self, key_id: int) -> bool:
        return bool(await self._value(sa.select(sa.exists().where(api_keys.c.id == key_id, _NOT_REVOKED))))

    async def list_personal(self, user_id: UserId) -> list[ApiKey]:
        return await self._keys(api_keys.c.user_id == user_id, api_keys.c.kind == KeyKind.PERSONAL)

    async def get_personal(self, user_id: UserId, key_id: int) -> ApiKey | None:
        mine = (api_keys.c.user_id == user_id, api_keys.c.kind == KeyKind.PERSONAL)
        return next(iter(await self._keys(api_keys.c.id == key_id, *mine)), None)

    async def list_in_organization(self, org_id: OrganizationId) -> list[ApiKey]:
        """Include keys that are limited to one project."""
        return await self._keys(api_keys.c.org_id == org_id)

    async def get_in_organization(self, org_id: OrganizationId, key_id: int) -> ApiKey | None:
        return next(iter(await self._keys(api_keys.c.id == key_id, api_keys.c.org_id == org_id)), None)

    async def set_digest(self, key_id: int, digest: str) -> None:
        await self._run(sa.update(api_keys).where(api_keys.c.id == key_id).values(digest=digest))

    async def revoke(self, key_id: int, now: datetime) -> None:
        await self._run(sa.update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=now))

    async def revoke_in_projects(self, project_ids: Collection[ProjectId], now: datetime) -> None:
        """Revoke project-scoped keys when the projects move to another organization."""
        theirs = sa.and_(api_keys.c.project_id.in_(project_ids), _NOT_REVOKED)
        await self._run(sa.update(api_keys).where(theirs).values(revoked_at=now))

    async def record_use(self, key_id: int, at: datetime, address: str) -> None:
        await self._run(
            sa.update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at, last_used_from=address)
        )

    async def _keys(self, *conditions: sa.ColumnElement[bool]) -> list[ApiKey]:
        rows = await self._all(sa.select(api_keys).where(*conditions, _NOT_REVOKED).order_by(api_keys.c.id))
        return [from_row(ApiKey, row) for row in rows]
