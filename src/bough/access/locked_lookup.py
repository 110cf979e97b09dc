"""The caller and what they hold, asked again inside the transaction that decides.

Since a request began, a role may have been taken, a key revoked or a project given away. Whoever changes
one of these has the same locks: projects first, then organizations, each in the order of their ids.
"""

from dataclasses import replace

from bough.access import lookup
from bough.access.principal import Principal, build_memberships
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound, Unauthenticated
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


async def caller(rows: Rows, principal: Principal, *org_ids: OrganizationId) -> Principal:
    """As they are now, for a decision on these organizations, about which nobody else decides meanwhile."""
    for org_id in sorted(set(org_ids)):
        await rows.organizations.lock(org_id)
    if principal.key_id is not None and not await rows.api_keys.is_active(principal.key_id):
        raise Unauthenticated("This API key was revoked a moment ago. Use another.")
    if not principal.is_person:
        return principal
    return replace(
        principal, memberships=build_memberships(await rows.organizations.list_memberships(principal.user_id))
    )


async def project(
    rows: Rows, principal: Principal, project_id: ProjectId, *, right: Right
) -> tuple[Project, Principal]:
    """The project for a right, with its caller; nobody else decides about it or its organization meanwhile."""
    await rows.projects.lock(project_id)
    found = await rows.projects.get(project_id)
    if found is None:
        raise NotFound.resource("project")
    now = await caller(rows, principal, found.org_id)
    return await lookup.project(rows, now, project_id, right=right), now
