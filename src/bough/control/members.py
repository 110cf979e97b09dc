"""Members of an organization: change a role, remove somebody, leave. An organization keeps an admin."""

from dataclasses import replace

from bough.access import fresh
from bough.access.principal import Principal
from bough.control.desk import Desk
from bough.domain.organization import Member, MemberRole, Organization, check_admin_remains
from bough.domain.rights import OrgRight
from bough.errors import NotFound, RuleBroken
from bough.ids import MemberId, OrganizationId
from bough.store.members import SeenMember
from bough.store.store import Rows


class Members:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def set_role(self, held: Organization, member_id: MemberId, role: MemberRole) -> Member:
        async with self._desk.transaction() as rows:
            caller = await fresh.caller(rows, self._desk.principal, held.id)
            caller.organization(held.id, to=OrgRight.MANAGE)
            seen = await rows.members.get(held.id, member_id)
            if seen is None:
                raise NotFound.thing("member")
            if role is not MemberRole.ADMIN:
                check_admin_remains(seen.member, await rows.members.count_admins(held.id))
            await rows.members.set_role(seen.member, role)
            self._desk.record.about(thing=seen.user.email, role=role, former_role=seen.member.role)
        return replace(seen.member, role=role)

    async def remove(self, held: Organization, member_id: MemberId) -> None:
        """By an admin, or by the member: then they leave. What they were given on single projects goes with them."""
        async with self._desk.transaction() as rows:
            caller = await fresh.caller(rows, self._desk.principal, held.id)
            seen = await one(rows, caller, held.id, member_id, to=OrgRight.MANAGE)
            if held.personal_for is not None:
                raise RuleBroken(
                    "This is a personal organization, which its one member cannot leave. Delete its projects, "
                    "or transfer them to another organization, instead."
                )
            check_admin_remains(seen.member, await rows.members.count_admins(held.id))
            await rows.members.remove(seen.member)
            await rows.grants.drop_roles_in(held.id, seen.member.user_id)
            self._desk.record.about(thing=seen.user.email, former_role=seen.member.role)


async def one(
    rows: Rows, caller: Principal, org_id: OrganizationId, member_id: MemberId, *, to: OrgRight
) -> SeenMember:
    """A member, for a right on the organization; towards themselves everybody has it."""
    found = await rows.members.get(org_id, member_id)
    is_self = caller.is_person and found is not None and found.member.user_id == caller.user_id
    if not is_self:
        caller.organization(org_id, to=to)
    if found is None:
        raise NotFound.thing("member")
    return found
