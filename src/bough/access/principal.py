"""The caller of a request: an API key or a signed-in user, with the organizations that it can access."""

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
    role: MemberRole | None  # None for organization and project keys, which do not belong to a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    kind: KeyKind  # a signed-in user has the same rights as their personal keys
    key_id: int | None  # None for a browser session
    name: str  # the e-mail address of a person, or the name of an organization or project key
    user_id: UserId  # the owner of a personal key, or the creator of another key
    memberships: Mapping[OrganizationId, Membership]
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
        """Return the organization, checked for a right. A caller outside it gets the error for an unknown id."""
        membership = self.memberships.get(org_id)
        if membership is None:
            raise NotFound.resource("organization")
        if not self._may(right, membership):
            raise Denied(f"You may not {right} this organization. {self._denial_hint()}")
        return membership.organization

    def default_organization(self) -> Organization:
        """Return the organization of a request that names none: a person's own, or the one of the key."""
        organizations = sorted(
            (each.organization for each in self.memberships.values()),
            key=lambda each: each.personal_for != self.user_id,
        )
        if not organizations:
            raise NotFound.resource("organization")
        return organizations[0]

    def check_is_person(self) -> None:
        """Reject keys that do not belong to a person, with the message that clients expect."""
        if not self.is_person:
            raise NotFound("not allowed for organization API keys")

    def require_personal_key(self) -> None:
        """Reject keys that do not belong to a person."""
        if not self.is_person:
            raise Denied("This request needs a personal API key. Organization and project keys may not make it.")

    def _may(self, right: OrgRight, membership: Membership) -> bool:
        if self.kind is KeyKind.PROJECT:
            return right is OrgRight.READ
        if membership.role is None:
            return right in rights.ORGANIZATION_KEY_RIGHTS
        return membership.role in rights.ORG_RIGHT_ROLES[right]

    def _denial_hint(self) -> str:
        if self.is_person:
            return "Ask one of its admins for a role that allows this."
        return "Use the personal API key of one of its admins."


def build_memberships(reached: Iterable[tuple[Organization, MemberRole | None]]) -> dict[OrganizationId, Membership]:
    return {organization.id: Membership(organization, role) for organization, role in reached}
