"""API keys: create and revoke. The token is given once and never kept."""

from dataclasses import replace

from bough import clock
from bough.control.context import Context
from bough.domain.api_key import ApiKey, KeyKind
from bough.errors import Invalid, NotFound
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class PersonalKeys:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, name: str) -> tuple[ApiKey, str]:
        """The key as kept, and its token."""
        self._context.principal.check_is_person()
        check_name(name)
        async with self._context.transaction() as rows:
            return await add_key(rows, self._context, name)

    async def revoke(self, key_id: int) -> ApiKey:
        self._context.principal.check_is_person()
        async with self._context.transaction() as rows:
            key = await rows.api_keys.get_personal(self._context.principal.user_id, key_id)
            if key is None:
                raise NotFound.resource("API key")
            return await revoke_key(rows, self._context, key)


def check_name(name: str) -> None:
    if not name.strip():
        raise Invalid("key_name is empty: give the key a name by which you will know it.")


async def add_key(
    rows: Rows, context: Context, name: str, org_id: OrganizationId | None = None, project_id: ProjectId | None = None
) -> tuple[ApiKey, str]:
    """Of the caller, unless it is an organization's or for one of its projects."""
    kind = KeyKind.PROJECT if project_id else KeyKind.ORGANIZATION if org_id else KeyKind.PERSONAL
    new = context.keys.generate()
    context.audit.add_details(project_id=project_id, thing=name)
    key = await rows.api_keys.add(
        {
            "kind": kind,
            "name": name,
            "prefix": new.prefix,
            "digest": new.digest,
            "user_id": context.principal.user_id,
            "org_id": org_id,
            "project_id": project_id,
            "created_at": clock.now(),
            "last_used_from": "",
        }
    )
    return key, new.token


async def revoke_key(rows: Rows, context: Context, key: ApiKey) -> ApiKey:
    now = clock.now()
    context.audit.add_details(project_id=key.project_id, thing=key.name)
    await rows.api_keys.revoke(key.id, now)
    return replace(key, revoked_at=now)
