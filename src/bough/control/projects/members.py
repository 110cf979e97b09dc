"""Organization members on one of its projects: their access level, its source, and how to change it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from bough.access import locked_lookup
from bough.access.principal import Principal
from bough.control.context import Context
from bough.domain import rights
from bough.domain.organization import MemberRole
from bough.domain.project import Project
from bough.domain.rights import AccessLevel, ProjectRole, Right
from bough.errors import NotFound, RuleViolation
from bough.ids import MemberId, ProjectId
from bough.store.members import MemberAndUser
from bough.store.store import Rows


class GrantSource(StrEnum):
    """The source of a member's access level on a project."""

    ADMIN = "org_admin_override"  # organization admins have full access
    EXPLICIT = "explicit"  # a role on this project, or a permission that grants more
    DEFAULT = "org_role_default"  # the level of the member's role in the organization
    UNASSIGNED = "unassigned"  # no access


@dataclass(frozen=True, slots=True)
class ProjectMember:
    identity: MemberAndUser
    explicit_role: ProjectRole | None
    is_shared: bool

    @property
    def role(self) -> MemberRole:
        return self.identity.member.role

    @property
    def default_level(self) -> AccessLevel:
        return rights.ROLE_LEVELS[self.role]

    @property
    def effective_level(self) -> AccessLevel:
        return rights.resolve_level(self.role, self.explicit_role, is_shared=self.is_shared)

    @property
    def source(self) -> GrantSource:
        if self.role is MemberRole.ADMIN:
            return GrantSource.ADMIN
        if self.explicit_role is not None or self.effective_level is not self.default_level:
            return GrantSource.EXPLICIT
        return GrantSource.UNASSIGNED if self.effective_level is AccessLevel.NONE else GrantSource.DEFAULT


@dataclass(frozen=True, slots=True)
class RoleChange:
    before: ProjectMember
    after: ProjectMember

    @property
    def lowers_level(self) -> bool:
        return self.after.effective_level < self.before.effective_level

    @property
    def leaves_passwords_known(self) -> bool:
        """Return whether the member could see passwords before the change and cannot any more."""
        return self.before.effective_level >= rights.REQUIRED_LEVELS[Right.CONNECT] > self.after.effective_level


async def set_project_role(
    context: Context,
    project: Project,
    member_id: MemberId,
    role: ProjectRole | None,
    *,
    confirmation_parameter: str | None,
) -> RoleChange:
    """Set the member's role on the project; None restores the level of their organization role.

    `confirmation_parameter` names the query parameter that confirms a change that lowers the caller's own level.
    """
    async with context.transaction() as rows:
        project, caller = await locked_lookup.project(rows, context.principal, project.id, right=Right.SHARE)
        identity = await rows.members.get(project.org_id, member_id)
        if identity is None:
            raise NotFound.resource("member")
        (before,) = await load_project_members(rows, project.id, [identity])
        change = RoleChange(before, replace(before, explicit_role=role))
        if confirmation_parameter is not None:
            _check_not_oneself(caller, change, confirmation_parameter)
        await rows.grants.set_role(project.id, identity.member.user_id, role)
        context.audit.add_details(resource=identity.user.email, role=role, former_role=before.explicit_role)
    return change


async def load_project_members(
    rows: Rows, project_id: ProjectId, members: Iterable[MemberAndUser]
) -> list[ProjectMember]:
    roles = await rows.grants.get_roles(project_id)
    shared = {permission.email for permission in await rows.grants.list_permissions(project_id)}
    return [ProjectMember(identity, roles.get(identity.user.id), identity.user.email in shared) for identity in members]


def _check_not_oneself(caller: Principal, change: RoleChange, parameter: str) -> None:
    is_self = caller.is_person and caller.user_id == change.before.identity.user.id
    if is_self and change.lowers_level:
        raise RuleViolation(
            f"This lowers your own access to the project. To confirm, add {parameter}=true to the query string."
        )
