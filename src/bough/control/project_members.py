"""Members of an organization on one of its projects: what each may, where that comes from, and how it is changed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from bough.access import fresh
from bough.access.principal import Principal
from bough.control.desk import Desk
from bough.domain import rights
from bough.domain.organization import MemberRole
from bough.domain.project import Project
from bough.domain.rights import Level, ProjectRole, Right
from bough.errors import NotFound, RuleBroken
from bough.ids import MemberId, ProjectId
from bough.store.members import SeenMember
from bough.store.store import Rows


class GrantSource(StrEnum):
    """Where somebody's level on a project comes from."""

    ADMIN = "org_admin_override"  # admins of the organization have everything
    EXPLICIT = "explicit"  # given on this project: a role, or a permission that is more
    DEFAULT = "org_role_default"  # what their role in the organization gives
    UNASSIGNED = "unassigned"  # nothing gives them any


@dataclass(frozen=True, slots=True)
class ProjectMember:
    seen: SeenMember
    given: ProjectRole | None
    shared: bool

    @property
    def role(self) -> MemberRole:
        return self.seen.member.role

    @property
    def usual(self) -> Level:
        return rights.USUAL[self.role]

    @property
    def effective(self) -> Level:
        return rights.level(self.role, self.given, shared=self.shared)

    @property
    def source(self) -> GrantSource:
        if self.role is MemberRole.ADMIN:
            return GrantSource.ADMIN
        if self.given is not None or self.effective is not self.usual:
            return GrantSource.EXPLICIT
        return GrantSource.UNASSIGNED if self.effective is Level.NONE else GrantSource.DEFAULT


@dataclass(frozen=True, slots=True)
class RoleChange:
    before: ProjectMember
    after: ProjectMember

    @property
    def lowers(self) -> bool:
        return self.after.effective < self.before.effective

    @property
    def leaves_passwords_known(self) -> bool:
        """The member could see them, and cannot any more."""
        return self.before.effective >= rights.LEAST[Right.CONNECT] > self.after.effective


class ProjectMembers:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def set_role(
        self, held: Project, member_id: MemberId, role: ProjectRole | None, *, unless: str | None
    ) -> RoleChange:
        """None: what their role in the organization gives.

        `unless`: nobody takes rights from themselves without this parameter.
        """
        async with self._desk.transaction() as rows:
            project, caller = await fresh.project(rows, self._desk.principal, held.id, to=Right.SHARE)
            seen = await rows.members.get(project.org_id, member_id)
            if seen is None:
                raise NotFound.thing("member")
            (before,) = await on_project(rows, project.id, [seen])
            change = RoleChange(before, replace(before, given=role))
            if unless is not None:
                _check_not_oneself(caller, change, unless)
            await rows.grants.set_role(project.id, seen.member.user_id, role)
            self._desk.record.about(thing=seen.user.email, role=role, former_role=before.given)
        return change


async def on_project(rows: Rows, project_id: ProjectId, members: Iterable[SeenMember]) -> list[ProjectMember]:
    roles = await rows.grants.roles_on(project_id)
    shared = {permission.email for permission in await rows.grants.permissions_on(project_id)}
    return [ProjectMember(seen, roles.get(seen.user.id), seen.user.email in shared) for seen in members]


def _check_not_oneself(caller: Principal, change: RoleChange, parameter: str) -> None:
    is_self = caller.is_person and caller.user_id == change.before.seen.user.id
    if is_self and change.lowers:
        raise RuleBroken(
            f"This takes rights on the project from yourself. If you mean it, add {parameter}=true to the address."
        )
