"""Members of an organization: change a role, remove a member, leave. At least one admin remains."""

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
        found = await rows.members.get(organization.id, member_id)
        if found is None:
            raise NotFound.resource("member")
        if role is not MemberRole.ADMIN:
            check_admin_remains(found.member, await rows.members.count_admins(organization.id))
        await rows.members.set_role(found.member, role)
        context.audit.add_details(resource=found.user.email, role=role, former_role=found.member.role)
    return replace(found.member, role=role)


async def remove_member(context: Context, organization: Organization, member_id: MemberId) -> None:
    """Remove a member, or leave. The member's roles on single projects are removed too."""
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        found = await find_member(rows, caller, organization.id, member_id, right=OrgRight.MANAGE)
        if organization.personal_for is not None:
            raise RuleViolation(
                "This is a personal organization, which its only member cannot leave. Delete its projects, "
                "or transfer them to another organization."
            )
        check_admin_remains(found.member, await rows.members.count_admins(organization.id))
        await rows.members.remove(found.member)
        await rows.grants.delete_roles_in_organization(organization.id, found.member.user_id)
        context.audit.add_details(resource=found.user.email, former_role=found.member.role)


async def find_member(
    rows: Rows, caller: Principal, org_id: OrganizationId, member_id: MemberId, *, right: OrgRight
) -> MemberAndUser:
    """Return a member, checked for a right on the organization. Members need no right for themselves."""
    found = await rows.members.get(org_id, member_id)
    is_self = caller.is_person and found is not None and found.member.user_id == caller.user_id
    if not is_self:
        caller.organization(org_id, right=right)
    if found is None:
        raise NotFound.resource("member")
    return found
