"""Organizations: create and rename. The creator becomes the first admin."""

from dataclasses import replace

from bough import clock
from bough.access import locked_lookup
from bough.control.context import Context
from bough.control.projects import quota
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.rights import OrgRight
from bough.errors import Invalid, NotFound
from bough.ids import MemberId, OrganizationId

_CONTROL = frozenset(map(chr, (*range(32), *range(127, 160))))


async def create_organization(context: Context, name: str) -> Organization:
    caller = context.principal
    caller.require_personal_key()
    _check_name(name)
    now, org_id = clock.now(), OrganizationId.new()
    async with context.transaction() as rows:
        user = await rows.users.get(caller.user_id)
        if user is None:
            raise NotFound.resource("user")
        await quota.check_organization_quota(rows, user, context.services.settings.plan(user.plan))
        organization = Organization(
            id=org_id,
            name=name,
            handle=org_id,
            plan=user.plan,
            personal_for=None,
            created_at=now,
            updated_at=now,
            created_by=user.id,
        )
        admin = Member(id=MemberId.new(), org_id=org_id, user_id=user.id, role=MemberRole.ADMIN, joined_at=now)
        await rows.organizations.add(organization)
        await rows.members.add(admin)
        context.audit.add_details(org_id=org_id, resource=name)
    return organization


async def rename_organization(context: Context, organization: Organization, name: str) -> Organization:
    _check_name(name)
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        before = caller.organization(organization.id, right=OrgRight.MANAGE)
        after = replace(before, name=name, updated_at=clock.now())
        await rows.organizations.save(after)
        context.audit.add_details(resource=name, former_name=before.name)
    return after


def _check_name(name: str) -> None:
    if not name.strip():
        raise Invalid("name is empty. Give the organization a name that its members will recognize.")
    if _CONTROL & set(name):
        raise Invalid("name contains a control character, such as a line break. Remove it.")
