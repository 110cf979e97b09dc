"""Everybody who may stand before one organization and one project of it: one caller of each kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from api.accounts import Account, add_account, add_key, add_member, add_organization, end_work
from api.front import Front
from bough import clock
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.permission import Permission
from bough.ids import PermissionId, ProjectId
from bough.store.store import Rows

WITHOUT = ("no key", "unknown key", "revoked key")
MEMBERS = tuple(MemberRole)
KEYS = ("organization key", "project key")
OUTSIDE = ("shared with", "stranger")
KNOWN = (*MEMBERS, *KEYS, *OUTSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    front: Front
    organization: Organization
    accounts: dict[str, Account]
    members: dict[str, Member]
    clients: dict[str, httpx2.AsyncClient]
    project: dict[str, Any]  # the answer that made it

    @property
    def admin(self) -> httpx2.AsyncClient:
        return self.clients[MemberRole.ADMIN]

    @property
    def project_id(self) -> str:
        return str(self.project["project"]["id"])

    @property
    def branch_id(self) -> str:
        return str(self.project["branch"]["id"])

    @property
    def endpoint_id(self) -> str:
        return str(self.project["endpoints"][0]["id"])

    async def work_ends(self) -> None:
        await end_work(self.front.parts, self.project_id)

    async def made(self, path: str, body: Any = None) -> dict[str, Any]:
        """What an admin makes before somebody else tries something with it."""
        answer = await self.admin.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
        await self.work_ends()
        found: dict[str, Any] = answer.json()
        return found


async def people(front: Front) -> tuple[Organization, dict[str, Account], dict[str, Member]]:
    """An organization with a member of every role, somebody it shares with, and a stranger."""
    accounts = {str(name): await add_account(front.parts) for name in (*MEMBERS, *OUTSIDE)}
    organization = await add_organization(front.parts, accounts[MemberRole.ADMIN])
    members = {}
    for role in MEMBERS[1:]:
        members[str(role)] = await add_member(front.parts, organization, accounts[role], role)
    async with front.parts.store.read() as rows:
        first = await rows.members.of_user(organization.id, accounts[MemberRole.ADMIN].user.id)
    assert first is not None
    return organization, accounts, {**members, str(MemberRole.ADMIN): first.member}


@asynccontextmanager
async def standing(front: Front) -> AsyncIterator[Standing]:
    organization, accounts, members = await people(front)
    admin = accounts[MemberRole.ADMIN]
    async with front.client(await add_key(front.parts, admin)) as client:
        answer = await client.post("/projects", json={"project": {"org_id": organization.id}})
        assert answer.status_code == 201, answer.text
    project = answer.json()
    project_id = ProjectId(project["project"]["id"])
    await end_work(front.parts, project_id)
    tokens = {name: await add_key(front.parts, account) for name, account in accounts.items()}
    of_org = {"org_id": organization.id}
    tokens["organization key"] = await add_key(front.parts, admin, KeyKind.ORGANIZATION, **of_org)
    tokens["project key"] = await add_key(front.parts, admin, KeyKind.PROJECT, **of_org, project_id=project_id)
    tokens["revoked key"] = await add_key(front.parts, admin, revoked_at=clock.now())
    tokens["unknown key"] = "bough_key_" + "x" * 55
    async with front.parts.store.transaction() as rows:
        await share(rows, project_id, admin, accounts["shared with"])
    clients = {name: front.client(token) for name, token in tokens.items()} | {"no key": front.client()}
    yield Standing(
        front=front, organization=organization, accounts=accounts, members=members, clients=clients, project=project
    )
    for each in clients.values():
        await each.aclose()


async def share(rows: Rows, project_id: ProjectId, by: Account, to: Account) -> None:
    await rows.grants.add_permission(
        Permission(
            id=PermissionId.new(),
            project_id=project_id,
            email=to.user.email,
            granted_by=by.user.id,
            granted_at=clock.now(),
        )
    )
