"""Members of an organization: change a role, remove somebody, leave. An organization keeps an admin."""

from dataclasses import replace

from bough.access import locked_lookup
from bough.access.principal import Principal
from bough.control.context import Context
from bough.domain.organization import Member, MemberRole, Organization, check_admin_remains
from bough.domain.rights import OrgRight
from bough.errors import NotFound, RuleViolation
from bough.ids import MemberId, OrganizationId
from bough.store.members import MemberAndUser
from bough.store.store import Rows


async def set_member_role(
    context: Context, organization: Organization, member_id: MemberId, role: MemberRole
) -> Member:
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        caller.organization(organization.id, right=OrgRight.MANAGE)
        seen = await rows.members.get(organization.id, member_id)
        if seen is None:
            raise NotFound.resource("member")
        if role is not MemberRole.ADMIN:
            check_admin_remains(seen.member, await rows.members.count_admins(organization.id))
        await rows.members.set_role(seen.member, role)
        context.audit.add_details(thing=seen.user.email, role=role, former_role=seen.member.role)
    return replace(seen.member, role=role)


async def remove_member(context: Context, organization: Organization, member_id: MemberId) -> None:
    """By an admin, or by the member: then they leave. What they were given on single projects goes with them."""
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        seen = await find_member(rows, caller, organization.id, member_id, right=OrgRight.MANAGE)
        if organization.personal_for is not None:
            raise RuleViolation(
                "This is a personal organization, which its one member cannot leave. Delete its projects, "
                "or transfer them to another organization, instead."
            )
        check_admin_remains(seen.member, await rows.members.count_admins(organization.id))
        await rows.members.remove(seen.member)
        await rows.grants.delete_roles_in_organization(organization.id, seen.member.user_id)
        context.audit.add_details(thing=seen.user.email, former_role=seen.member.role)


async def find_member(
    rows: Rows, caller: Principal, org_id: OrganizationId, member_id: MemberId, *, right: OrgRight
) -> MemberAndUser:
    """A member, for a right on the organization; towards themselves everybody has it."""
    found = await rows.members.get(org_id, member_id)
    is_self = caller.is_person and found is not None and found.member.user_id == caller.user_id
    if not is_self:
        caller.organization(org_id, right=right)
    if found is None:
        raise NotFound.resource("member")
    return found
