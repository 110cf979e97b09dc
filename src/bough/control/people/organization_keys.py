"""Keys of an organization: for all of its projects, which its admins make, or for one of them."""

from bough.access import locked_lookup, lookup
from bough.access.principal import Principal
from bough.control.context import Context
from bough.control.people import keys
from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import OrgRight, Right
from bough.errors import NotFound
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class OrganizationKeys:
    def __init__(self, context: Context, organization: Organization) -> None:
        self._context = context
        self._org_id = organization.id

    async def create(self, name: str, project_id: ProjectId | None) -> tuple[ApiKey, str]:
        """The key as kept, and its token."""
        keys.check_name(name)
        async with self._context.transaction() as rows:
            if project_id is None:
                await self._check_can_create_organization_key(rows)
            else:
                await self._check_can_create_project_key(rows, project_id)
            return await keys.add_key(rows, self._context, name, self._org_id, project_id)

    async def revoke(self, key_id: int) -> ApiKey:
        self._context.principal.require_personal_key()
        async with self._context.transaction() as rows:
            caller = await locked_lookup.caller(rows, self._context.principal, self._org_id)
            caller.organization(self._org_id, right=OrgRight.MAKE_PROJECT_KEYS)
            key = await rows.api_keys.get_in_organization(self._org_id, key_id)
            if key is None or not can_see_key(key, caller, self._org_id):
                raise NotFound.resource("API key")
            return await keys.revoke_key(rows, self._context, key)

    async def _check_can_create_organization_key(self, rows: Rows) -> None:
        self._context.principal.require_personal_key()
        caller = await locked_lookup.caller(rows, self._context.principal, self._org_id)
        caller.organization(self._org_id, right=OrgRight.MANAGE)

    async def _check_can_create_project_key(self, rows: Rows, project_id: ProjectId) -> None:
        project, caller = await locked_lookup.project(rows, self._context.principal, project_id, right=Right.READ)
        if project.org_id != self._org_id:
            raise NotFound.resource("project")
        caller.organization(self._org_id, right=OrgRight.MAKE_PROJECT_KEYS)
        await lookup.project(rows, caller, project_id, right=Right.WRITE)


def can_see_key(key: ApiKey, caller: Principal, org_id: OrganizationId) -> bool:
    """Admins and keys of the organization see all of its keys, others those for a project that they made."""
    if caller.kind is KeyKind.ORGANIZATION or caller.role_in(org_id) is MemberRole.ADMIN:
        return True
    return key.kind is KeyKind.PROJECT and key.user_id == caller.user_id
