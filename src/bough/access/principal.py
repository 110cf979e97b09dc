"""The caller: which kind of key it holds and what that key reaches."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bough.domain.api_key import KeyKind
from bough.domain.organization import Organization
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
    organizations: Mapping[OrganizationId, Organization]  # those the key reaches
    project_id: ProjectId | None = None  # the only project of a project key

    def may(self, right: Right, project: Project) -> bool:
        if project.org_id not in self.organizations:
            return False
        if self.kind is KeyKind.PROJECT:
            return project.id == self.project_id and right is not Right.DELETE
        return True

    def organization(self, org_id: OrganizationId | None) -> Organization:
        """The named organization, or without a name the one the caller acts in: a person's own comes first."""
        if org_id is not None:
            found = self.organizations.get(org_id)
        else:
            reached = sorted(self.organizations.values(), key=lambda each: each.personal_for != self.user_id)
            found = reached[0] if reached else None
        if found is None:
            raise NotFound.thing("organization")
        return found

    def check_is_user(self) -> None:
        if self.kind is not KeyKind.PERSONAL:
            raise NotFound("not allowed for organization API keys")
