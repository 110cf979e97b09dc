"""Access levels: a caller's level on a project, and the projects that a caller can reach."""

from collections.abc import Collection, Iterable, Mapping

from bough.access.principal import Membership, Principal
from bough.domain import rights
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole
from bough.domain.project import Project
from bough.domain.rights import AccessLevel, Right
from bough.ids import OrganizationId, ProjectId
from bough.store.grants import NO_GRANT, ProjectGrant
from bough.store.project_pages import ProjectScope
from bough.store.store import Rows


async def load_level(rows: Rows, principal: Principal, project: Project) -> AccessLevel:
    """Query the store only if a grant on this project could change the result."""
    if _ignores_grants(principal, project.org_id):
        return _compute_level(principal, project, NO_GRANT)
    return _compute_level(principal, project, await rows.grants.get(principal.user_id, principal.name, project.id))


async def load_levels(rows: Rows, principal: Principal, projects: Iterable[Project]) -> dict[ProjectId, AccessLevel]:
    granted: Mapping[ProjectId, ProjectGrant] = {}
    requested = list(projects)
    if not all(_ignores_grants(principal, project.org_id) for project in requested):
        granted = await rows.grants.get_by_project(principal.user_id, principal.name)
    return {project.id: _compute_level(principal, project, granted.get(project.id, NO_GRANT)) for project in requested}


def allows(principal: Principal, right: Right, project: Project, level: AccessLevel) -> bool:
    role = principal.role_in(project.org_id)
    if principal.kind is KeyKind.ORGANIZATION:  # has the rights of an organization admin on projects
        role = MemberRole.ADMIN
    return rights.is_allowed(right, level, role)


async def find_reachable_projects(
    rows: Rows, principal: Principal, memberships: Collection[Membership], min_level: AccessLevel
) -> ProjectScope:
    """Return the projects of these organizations on which the caller has at least `min_level`."""
    found: dict[OrganizationId, Collection[ProjectId] | None] = {}
    restricted: list[Membership] = []
    for membership in memberships:
        org_id = membership.organization.id
        if principal.kind is KeyKind.PROJECT:
            found[org_id] = [principal.project_id] if principal.project_id and min_level <= AccessLevel.EDITOR else []
        elif membership.role is None or rights.ROLE_LEVELS[membership.role] >= min_level:
            found[org_id] = None
        else:
            restricted.append(membership)
    if restricted:
        granted = await rows.grants.get_by_project(principal.user_id, principal.name)
        for membership in restricted:
            found[membership.organization.id] = [
                project_id
                for project_id, each in granted.items()
                if rights.resolve_level(membership.role, each.role, is_shared=each.is_shared) >= min_level
            ]
    return found


async def find_shared_projects(rows: Rows, principal: Principal) -> ProjectScope:
    """Return the projects shared with a person by organizations they are not a member of."""
    if not principal.is_person:
        return {}
    granted = await rows.grants.get_by_project(principal.user_id, principal.name)
    owners = await rows.projects.group_by_organization(
        project_id for project_id, each in granted.items() if each.is_shared
    )
    return {org_id: found for org_id, found in owners.items() if org_id not in principal.memberships}


def _ignores_grants(principal: Principal, org_id: OrganizationId) -> bool:
    """Return whether grants on single projects cannot change the caller's level."""
    return not principal.is_person or principal.role_in(org_id) is MemberRole.ADMIN


def _compute_level(principal: Principal, project: Project, granted: ProjectGrant) -> AccessLevel:
    if principal.kind is KeyKind.PROJECT:
        return AccessLevel.EDITOR if project.id == principal.project_id else AccessLevel.NONE
    if principal.kind is KeyKind.ORGANIZATION:
        return AccessLevel.ADMIN if project.org_id in principal.memberships else AccessLevel.NONE
    return rights.resolve_level(principal.role_in(project.org_id), granted.role, is_shared=granted.is_shared)
