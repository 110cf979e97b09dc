"""Writes accounts, organizations, members and keys directly into the store, and marks operations as finished."""

import uuid
from dataclasses import dataclass, replace
from typing import Any

from bough import clock
from bough.control.platform import mail
from bough.control.services import Services
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


async def add_account(services: Services, plan: str = "unlimited") -> Account:
    now = clock.now()
    user_id = UserId(uuid.uuid4())
    email = f"{user_id}@example.com"
    user = User(id=user_id, email=email, name="Ada", last_name="Lin", plan=plan, created_at=now, updated_at=now)
    org_id = OrganizationId.new()
    organization = Organization(
        id=org_id, name="Ada", handle=org_id, plan=plan, personal_for=user_id, created_at=now, updated_at=now
    )
    member = Member(id=MemberId.new(), org_id=org_id, user_id=user_id, role=MemberRole.ADMIN, joined_at=now)
    async with services.store.transaction() as rows:
        await rows.users.add(user)
        await rows.organizations.add(organization)
        await rows.members.add(member)
    return Account(user, organization)


async def add_organization(
    services: Services, admin: Account, name: str = "team", plan: str = "unlimited"
) -> Organization:
    """Add an organization for a team, with its first admin."""
    now, org_id = clock.now(), OrganizationId.new()
    organization = Organization(
        id=org_id, name=name, handle=org_id, plan=plan, personal_for=None, created_at=now, updated_at=now
    )
    async with services.store.transaction() as rows:
        await rows.organizations.add(organization)
    await add_member(services, organization, admin, MemberRole.ADMIN)
    return organization


async def add_member(services: Services, organization: Organization, account: Account, role: MemberRole) -> Member:
    now = clock.now()
    member = Member(id=MemberId.new(), org_id=organization.id, user_id=account.user.id, role=role, joined_at=now)
    async with services.store.transaction() as rows:
        await rows.members.add(member)
    return member


async def add_key(services: Services, account: Account, kind: KeyKind = KeyKind.PERSONAL, **columns: Any) -> str:
    """Add a key of the account and return its token."""
    key = services.keys.generate()
    async with services.store.transaction() as rows:
        await rows.api_keys.add(
            {
                "kind": kind,
                "name": f"{kind} key",
                "prefix": key.prefix,
                "digest": key.digest,
                "user_id": account.user.id,
                "org_id": None if kind is KeyKind.PERSONAL else account.organization.id,
                "created_at": clock.now(),
                "last_used_from": "",
                **columns,
            }
        )
    return key.token


async def list_mails(services: Services, email: str) -> list[tuple[str, str]]:
    """Return subject and text of the unsent mails to an address, oldest first."""
    async with services.store.read() as rows:
        unsent = await rows.mail_messages.list_due(clock.now(), 1_000_000)
    return [(each.subject, mail.open_text(services.vault, each)) for each in unsent if each.recipient == email]


async def finish_operations(services: Services, project_id: str) -> None:
    """Mark the open operations of the project as finished without running them."""
    now = clock.now()
    async with services.store.transaction() as rows:
        for operation in await rows.operations.list_open(ProjectId(project_id)):
            ended = replace(operation, status=OperationStatus.FINISHED, ended_at=now, updated_at=now)
            await rows.operations.save(ended)
