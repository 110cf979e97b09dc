"""The caller: which kind of key it holds, or who signed in, and the organizations that reaches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bough.domain import rights
from bough.domain.api_key import KeyKind
from bough.domain.audit import Actor, ActorKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import OrgRight
from bough.domain.user import OPERATOR
from bough.errors import Denied, NotFound
from bough.ids import OrganizationId, ProjectId, UserId

_ACTORS = {
    KeyKind.PERSONAL: ActorKind.PERSONAL_KEY,
    KeyKind.ORGANIZATION: ActorKind.ORGANIZATION_KEY,
    KeyKind.PROJECT: ActorKind.PROJECT_KEY,
}


@dataclass(frozen=True, slots=True)
class Membership:
    organization: Organization
    role: MemberRole | None  # a person's; a key that is nobody's own has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    kind: KeyKind  # somebody who signed in reaches what their personal keys reach
    key_id: int | None  # None: signed in with a browser
    name: str  # the e-mail address of a person, the name of a key that is nobody's own
    user_id: UserId  # who holds a personal key, or made the others
    memberships: Mapping[OrganizationId, Membership]  # the organizations it reaches
    project_id: ProjectId | None = None  # the only project of a project key

    @property
    def is_person(self) -> bool:
        return self.kind is KeyKind.PERSONAL

    @property
    def is_operator(self) -> bool:
        return self.is_person and self.user_id == OPERATOR

    @property
    def actor(self) -> Actor:
        kind = ActorKind.PERSON if self.key_id is None else _ACTORS[self.kind]
        return Actor(kind=kind, name=self.name, user_id=self.user_id, key_id=self.key_id)

    def role_in(self, org_id: OrganizationId) -> MemberRole | None:
        membership = self.memberships.get(org_id)
        return membership.role if membership else None

    def organization(self, org_id: OrganizationId, *, right: OrgRight) -> Organization:
        """The organization, for a right; a stranger is told the same as someone who mistyped its id."""
        membership = self.memberships.get(org_id)
        if membership is None:
            raise NotFound.resource("organization")
        if not self._may(right, membership):
            raise Denied(f"You may not {right} this organization. {self._way_out()}")
        return membership.organization

    def default_organization(self) -> Organization:
        """Where the caller acts who names no organization: a person's own, or that of the key."""
        reached = sorted(
            (each.organization for each in self.memberships.values()),
            key=lambda each: each.personal_for != self.user_id,
        )
        if not reached:
            raise NotFound.resource("organization")
        return reached[0]

    def check_is_person(self) -> None:
        """For what is about a person; the words are those that clients know."""
        if not self.is_person:
            raise NotFound("not allowed for organization API keys")

    def require_personal_key(self) -> None:
        """For what only people do."""
        if not self.is_person:
            raise Denied("This takes a personal API key; a key of an organization or a project may not do it.")

    def _may(self, right: OrgRight, membership: Membership) -> bool:
        if self.kind is KeyKind.PROJECT:
            return right is OrgRight.READ
        if membership.role is None:
            return right in rights.ORGANIZATION_KEY_RIGHTS
        return membership.role in rights.ORG_RIGHT_ROLES[right]

    def _way_out(self) -> str:
        if self.is_person:
            return "Ask one of its admins for a role that may."
        return "Use the personal API key of one of its admins."


def build_memberships(reached: Iterable[tuple[Organization, MemberRole | None]]) -> dict[OrganizationId, Membership]:
    return {organization.id: Membership(organization, role) for organization, role in reached}
