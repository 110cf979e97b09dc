"""The caller: which kind of key it holds and what that key reaches."""

from dataclasses import dataclass
from enum import StrEnum

from bough.domain.api_key import KeyKind
from bough.domain.project import Project
from bough.errors import NotFound
from bough.ids import OrganizationId, ProjectId, UserId


class Right(StrEnum):
    READ = "read"
    WRITE = "write"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    kind: KeyKind
    key_id: int
    user_id: UserId  # who holds a personal key, or made the others
    organizations: frozenset[OrganizationId]  # those the key reaches
    project_id: ProjectId | None = None  # the only project of a project key

    def may(self, right: Right, project: Project) -> bool:
        if project.org_id not in self.organizations:
            return False
        if self.kind is KeyKind.PROJECT:
            return project.id == self.project_id and right is not Right.DELETE
        return True

    def check_is_user(self) -> None:
        if self.kind is not KeyKind.PERSONAL:
            raise NotFound("not allowed for organization API keys")
