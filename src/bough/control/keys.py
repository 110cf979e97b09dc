"""API keys: create and revoke. The token is given once and never kept."""

from dataclasses import replace

from bough import clock
from bough.control.desk import Desk
from bough.domain.api_key import ApiKey, KeyKind
from bough.errors import Invalid, NotFound
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class PersonalKeys:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, name: str) -> tuple[ApiKey, str]:
        """The key as kept, and its token."""
        self._desk.principal.check_is_person()
        check_name(name)
        async with self._desk.transaction() as rows:
            return await add(rows, self._desk, name)

    async def revoke(self, key_id: int) -> ApiKey:
        self._desk.principal.check_is_person()
        async with self._desk.transaction() as rows:
            key = await rows.api_keys.personal_one(self._desk.principal.user_id, key_id)
            if key is None:
                raise NotFound.thing("API key")
            return await revoke(rows, self._desk, key)


def check_name(name: str) -> None:
    if not name.strip():
        raise Invalid("key_name is empty: give the key a name by which you will know it.")


async def add(
    rows: Rows, desk: Desk, name: str, org_id: OrganizationId | None = None, project_id: ProjectId | None = None
) -> tuple[ApiKey, str]:
    """Of the caller, unless it is an organization's or for one of its projects."""
    kind = KeyKind.PROJECT if project_id else KeyKind.ORGANIZATION if org_id else KeyKind.PERSONAL
    new = desk.keys.new()
    desk.record.about(project_id=project_id, thing=name)
    key = await rows.api_keys.add(
        {
            "kind": kind,
            "name": name,
            "prefix": new.prefix,
            "digest": new.digest,
            "user_id": desk.principal.user_id,
            "org_id": org_id,
            "project_id": project_id,
            "created_at": clock.now(),
            "last_used_from": "",
        }
    )
    return key, new.token


async def revoke(rows: Rows, desk: Desk, key: ApiKey) -> ApiKey:
    now = clock.now()
    desk.record.about(project_id=key.project_id, thing=key.name)
    await rows.api_keys.revoke(key.id, now)
    return replace(key, revoked_at=now)
