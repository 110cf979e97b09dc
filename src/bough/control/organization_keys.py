"""Keys of an organization: for all of its projects, which its admins make, or for one of them."""

from bough.access import fresh, lookup
from bough.access.principal import Principal
from bough.control import keys
from bough.control.desk import Desk
from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import OrgRight, Right
from bough.errors import NotFound
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class OrganizationKeys:
    def __init__(self, desk: Desk, organization: Organization) -> None:
        self._desk = desk
        self._org_id = organization.id

    async def create(self, name: str, project_id: ProjectId | None) -> tuple[ApiKey, str]:
        """The key as kept, and its token."""
        keys.check_name(name)
        async with self._desk.transaction() as rows:
            if project_id is None:
                await self._check_makes_keys_for_all(rows)
            else:
                await self._check_makes_keys_for(rows, project_id)
            return await keys.add(rows, self._desk, name, self._org_id, project_id)

    async def revoke(self, key_id: int) -> ApiKey:
        self._desk.principal.check_acts_in_person()
        async with self._desk.transaction() as rows:
            caller = await fresh.caller(rows, self._desk.principal, self._org_id)
            caller.organization(self._org_id, to=OrgRight.MAKE_PROJECT_KEYS)
            key = await rows.api_keys.organization_one(self._org_id, key_id)
            if key is None or not is_shown(key, caller, self._org_id):
                raise NotFound.thing("API key")
            return await keys.revoke(rows, self._desk, key)

    async def _check_makes_keys_for_all(self, rows: Rows) -> None:
        self._desk.principal.check_acts_in_person()
        caller = await fresh.caller(rows, self._desk.principal, self._org_id)
        caller.organization(self._org_id, to=OrgRight.MANAGE)

    async def _check_makes_keys_for(self, rows: Rows, project_id: ProjectId) -> None:
        project, caller = await fresh.project(rows, self._desk.principal, project_id, to=Right.READ)
        if project.org_id != self._org_id:
            raise NotFound.thing("project")
        caller.organization(self._org_id, to=OrgRight.MAKE_PROJECT_KEYS)
        await lookup.project(rows, caller, project_id, to=Right.WRITE)


def is_shown(key: ApiKey, caller: Principal, org_id: OrganizationId) -> bool:
    """Admins and keys of the organization see all of its keys, others those for a project that they made."""
    if caller.kind is KeyKind.ORGANIZATION or caller.role_in(org_id) is MemberRole.ADMIN:
        return True
    return key.kind is KeyKind.PROJECT and key.user_id == caller.user_id
