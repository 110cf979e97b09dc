"""How much of a project a caller has, and which projects a caller reaches."""

from collections.abc import Collection, Iterable, Mapping

from bough.access.principal import Membership, Principal
from bough.domain import rights
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole
from bough.domain.project import Project
from bough.domain.rights import Level, Right
from bough.ids import OrganizationId, ProjectId
from bough.store.grants import NOTHING, Granted
from bough.store.projects import Reached
from bough.store.store import Rows


async def level(rows: Rows, principal: Principal, project: Project) -> Level:
    """Asks the store only where something may be given to this caller on this project alone."""
    if _by_itself(principal, project.org_id):
        return _level(principal, project, NOTHING)
    return _level(principal, project, await rows.grants.of(principal.user_id, principal.name, project.id))


async def levels(rows: Rows, principal: Principal, projects: Iterable[Project]) -> dict[ProjectId, Level]:
    granted: Mapping[ProjectId, Granted] = {}
    wanted = list(projects)
    if not all(_by_itself(principal, project.org_id) for project in wanted):
        granted = await rows.grants.of_person(principal.user_id, principal.name)
    return {project.id: _level(principal, project, granted.get(project.id, NOTHING)) for project in wanted}


def allows(principal: Principal, right: Right, project: Project, has: Level) -> bool:
    role = principal.role_in(project.org_id)
    if principal.kind is KeyKind.ORGANIZATION:  # as its admins may, over projects
        role = MemberRole.ADMIN
    return rights.allows(right, has, role)


async def reach(rows: Rows, principal: Principal, among: Collection[Membership], least: Level) -> Reached:
    """Of these organizations, the projects on which the caller has at least that level."""
    found: dict[OrganizationId, Collection[ProjectId] | None] = {}
    partly: list[Membership] = []
    for membership in among:
        org_id = membership.organization.id
        if principal.kind is KeyKind.PROJECT:
            found[org_id] = [principal.project_id] if principal.project_id and least <= Level.EDITOR else []
        elif membership.role is None or rights.USUAL[membership.role] >= least:
            found[org_id] = None
        else:
            partly.append(membership)
    if partly:
        granted = await rows.grants.of_person(principal.user_id, principal.name)
        for membership in partly:
            found[membership.organization.id] = [
                project_id
                for project_id, each in granted.items()
                if rights.level(membership.role, each.role, shared=each.shared) >= least
            ]
    return found


async def shared(rows: Rows, principal: Principal) -> Reached:
    """Projects that a person reaches by a permission, in organizations that are not theirs."""
    if not principal.is_person:
        return {}
    granted = await rows.grants.of_person(principal.user_id, principal.name)
    owners = await rows.projects.owners(project_id for project_id, each in granted.items() if each.shared)
    return {org_id: found for org_id, found in owners.items() if org_id not in principal.memberships}


def _by_itself(principal: Principal, org_id: OrganizationId) -> bool:
    """Whether what is given on single projects changes nothing."""
    return not principal.is_person or principal.role_in(org_id) is MemberRole.ADMIN


def _level(principal: Principal, project: Project, granted: Granted) -> Level:
    if principal.kind is KeyKind.PROJECT:
        return Level.EDITOR if project.id == principal.project_id else Level.NONE
    if principal.kind is KeyKind.ORGANIZATION:
        return Level.ADMIN if project.org_id in principal.memberships else Level.NONE
    return rights.level(principal.role_in(project.org_id), granted.role, shared=granted.shared)
