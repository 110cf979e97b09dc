"""Personal and organization API keys: create and revoke. The token is returned once and never stored."""

from dataclasses import replace

from bough import clock
from bough.access import locked_lookup, lookup
from bough.access.principal import Principal
from bough.control.context import Context
from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import OrgRight, Right
from bough.errors import Invalid, NotFound
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


async def create_personal_key(context: Context, name: str) -> tuple[ApiKey, str]:
    """Return the stored key and its token."""
    context.principal.check_is_person()
    check_name(name)
    async with context.transaction() as rows:
        return await add_key(rows, context, name)


async def revoke_personal_key(context: Context, key_id: int) -> ApiKey:
    context.principal.check_is_person()
    async with context.transaction() as rows:
        key = await rows.api_keys.get_personal(context.principal.user_id, key_id)
        if key is None:
            raise NotFound.resource("API key")
        return await revoke_key(rows, context, key)


def check_name(name: str) -> None:
    if not name.strip():
        raise Invalid("key_name is empty. Give the key a name that you will recognize.")


async def add_key(
    rows: Rows, context: Context, name: str, org_id: OrganizationId | None = None, project_id: ProjectId | None = None
) -> tuple[ApiKey, str]:
    """Add a key: personal, or for an organization or one of its projects if given."""
    kind = KeyKind.PROJECT if project_id else KeyKind.ORGANIZATION if org_id else KeyKind.PERSONAL
    new = context.services.keys.generate()
    context.audit.add_details(project_id=project_id, resource=name)
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
    context.audit.add_details(project_id=key.project_id, resource=key.name)
    await rows.api_keys.revoke(key.id, now)
    return replace(key, revoked_at=now)


async def create_organization_key(
    context: Context, organization: Organization, name: str, project_id: ProjectId | None
) -> tuple[ApiKey, str]:
    """Return the stored key and its token."""
    check_name(name)
    async with context.transaction() as rows:
        if project_id is None:
            await _check_can_create_organization_key(context, organization, rows)
        else:
            await _check_can_create_project_key(context, organization, rows, project_id)
        return await add_key(rows, context, name, organization.id, project_id)


async def revoke_organization_key(context: Context, organization: Organization, key_id: int) -> ApiKey:
    context.principal.require_personal_key()
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        caller.organization(organization.id, right=OrgRight.CREATE_PROJECT_KEYS)
        key = await rows.api_keys.get_in_organization(organization.id, key_id)
        if key is None or not can_see_key(key, caller, organization.id):
            raise NotFound.resource("API key")
        return await revoke_key(rows, context, key)


async def _check_can_create_organization_key(context: Context, organization: Organization, rows: Rows) -> None:
    context.principal.require_personal_key()
    caller = await locked_lookup.caller(rows, context.principal, organization.id)
    caller.organization(organization.id, right=OrgRight.MANAGE)


async def _check_can_create_project_key(
    context: Context, organization: Organization, rows: Rows, project_id: ProjectId
) -> None:
    project, caller = await locked_lookup.project(rows, context.principal, project_id, right=Right.READ)
    if project.org_id != organization.id:
        raise NotFound.resource("project")
    caller.organization(organization.id, right=OrgRight.CREATE_PROJECT_KEYS)
    await lookup.project(rows, caller, project_id, right=Right.WRITE)


def can_see_key(key: ApiKey, caller: Principal, org_id: OrganizationId) -> bool:
    """Organization admins and keys see all keys; other members see the project keys that they created."""
    if caller.kind is KeyKind.ORGANIZATION or caller.role_in(org_id) is MemberRole.ADMIN:
        return True
    return key.kind is KeyKind.PROJECT and key.user_id == caller.user_id
