"""What tests write straight into the store: accounts, organizations, members, keys, and work that is over."""

import uuid
from dataclasses import dataclass, replace
from typing import Any

from bough import clock
from bough.control import mail
from bough.control.parts import Parts
from bough.domain.api_key import KeyKind
from bough.domain.operation import OperationStatus
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.user import User
from bough.ids import MemberId, OrganizationId, ProjectId, UserId


@dataclass(frozen=True, slots=True)
class Account:
    """A user and their personal organization."""

    user: User
    organization: Organization


async def add_account(parts: Parts, plan: str = "unlimited") -> Account:
    now = clock.now()
    user_id = UserId(uuid.uuid4())
    email = f"{user_id}@example.com"
    user = User(id=user_id, email=email, name="Ada", last_name="Lin", plan=plan, created_at=now, updated_at=now)
    org_id = OrganizationId.new()
    organization = Organization(
        id=org_id, name="Ada", handle=org_id, plan=plan, personal_for=user_id, created_at=now, updated_at=now
    )
    member = Member(id=MemberId.new(), org_id=org_id, user_id=user_id, role=MemberRole.ADMIN, joined_at=now)
    async with parts.store.transaction() as rows:
        await rows.users.add(user)
        await rows.organizations.add(organization)
        await rows.members.add(member)
    return Account(user, organization)


async def add_organization(parts: Parts, admin: Account, name: str = "team", plan: str = "unlimited") -> Organization:
    """One for a team, with its first admin."""
    now, org_id = clock.now(), OrganizationId.new()
    organization = Organization(
        id=org_id, name=name, handle=org_id, plan=plan, personal_for=None, created_at=now, updated_at=now
    )
    async with parts.store.transaction() as rows:
        await rows.organizations.add(organization)
    await add_member(parts, organization, admin, MemberRole.ADMIN)
    return organization


async def add_member(parts: Parts, organization: Organization, account: Account, role: MemberRole) -> Member:
    now = clock.now()
    member = Member(id=MemberId.new(), org_id=organization.id, user_id=account.user.id, role=role, joined_at=now)
    async with parts.store.transaction() as rows:
        await rows.members.add(member)
    return member


async def add_key(parts: Parts, account: Account, kind: KeyKind = KeyKind.PERSONAL, **columns: Any) -> str:
    """The token of a new key of the account."""
    new = parts.keys.new()
    async with parts.store.transaction() as rows:
        await rows.api_keys.add(
            {
                "kind": kind,
                "name": f"{kind} key",
                "prefix": new.prefix,
                "digest": new.digest,
                "user_id": account.user.id,
                "org_id": None if kind is KeyKind.PERSONAL else account.organization.id,
                "created_at": clock.now(),
                "last_used_from": "",
                **columns,
            }
        )
    return new.token


async def letters_to(parts: Parts, email: str) -> list[tuple[str, str]]:
    """Subject and text of the mails that wait for an address, the oldest first."""
    async with parts.store.read() as rows:
        waiting = await rows.letters.due(clock.now(), 1_000_000)
    return [(each.subject, mail.text_of(parts.vault, each)) for each in waiting if each.recipient == email]


async def end_work(parts: Parts, project_id: str) -> None:
    """The rows say that the project's work is done; no machine has seen it."""
    now = clock.now()
    async with parts.store.transaction() as rows:
        for operation in await rows.operations.open_of(ProjectId(project_id)):
            ended = replace(operation, status=OperationStatus.FINISHED, ended_at=now, updated_at=now)
            await rows.operations.save(ended)
