"""Checked lookups that lock what they read, for use inside the transaction that makes the change.

A role may have been revoked, a key revoked or a project transferred since the request began. Every transaction that
changes one of these takes the same locks in the same order: projects first, then organizations, each by id.
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
    """Lock these organizations and return the principal with its current memberships."""
    for org_id in sorted(set(org_ids)):
        await rows.organizations.lock(org_id)
    if principal.key_id is not None and not await rows.api_keys.is_active(principal.key_id):
        raise Unauthenticated("This API key was revoked while the request was running. Use another key.")
    if not principal.is_person:
        return principal
    return replace(
        principal, memberships=build_memberships(await rows.organizations.list_memberships(principal.user_id))
    )


async def project(
    rows: Rows, principal: Principal, project_id: ProjectId, *, right: Right
) -> tuple[Project, Principal]:
    """Lock the project and its organization; return the project and the current principal, checked for `right`."""
    await rows.projects.lock(project_id)
    found = await rows.projects.get(project_id)
    if found is None:
        raise NotFound.resource("project")
    current = await caller(rows, principal, found.org_id)
    return await lookup.project(rows, current, project_id, right=right), current
