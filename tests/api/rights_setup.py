"""An organization with a project, and one caller of each kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from bough import clock
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.permission import Permission
from bough.ids import PermissionId, ProjectId
from bough.store.store import Rows
from support.accounts import Account, add_account, add_key, add_member, add_organization, finish_operations
from support.api_app import ApiApp

UNAUTHENTICATED = ("no key", "unknown key", "revoked key")
MEMBERS = tuple(MemberRole)
KEYS = ("organization key", "project key")
NON_MEMBERS = ("shared with", "stranger")
AUTHENTICATED = (*MEMBERS, *KEYS, *NON_MEMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsSetup:
    api_app: ApiApp
    organization: Organization
    accounts: dict[str, Account]
    members: dict[str, Member]
    clients: dict[str, httpx2.AsyncClient]
    project: dict[str, Any]  # the response that created it

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

    async def finish_operations(self) -> None:
        await finish_operations(self.api_app.services, self.project_id)

    async def create(self, path: str, body: Any = None) -> dict[str, Any]:
        """Creates an object as admin, for another caller to use."""
        response = await self.admin.post(path, json=body)
        assert response.status_code in (200, 201), response.text
        await self.finish_operations()
        found: dict[str, Any] = response.json()
        return found


async def create_members(app: ApiApp) -> tuple[Organization, dict[str, Account], dict[str, Member]]:
    """Creates an organization with a member of every role, a user it shares a project with, and a stranger."""
    accounts = {str(name): await add_account(app.services) for name in (*MEMBERS, *NON_MEMBERS)}
    organization = await add_organization(app.services, accounts[MemberRole.ADMIN])
    members = {}
    for role in MEMBERS[1:]:
        members[str(role)] = await add_member(app.services, organization, accounts[role], role)
    async with app.services.store.read() as rows:
        first = await rows.members.get_by_user(organization.id, accounts[MemberRole.ADMIN].user.id)
    assert first is not None
    return organization, accounts, {**members, str(MemberRole.ADMIN): first.member}


@asynccontextmanager
async def open_rights_setup(app: ApiApp) -> AsyncIterator[RightsSetup]:
    organization, accounts, members = await create_members(app)
    admin = accounts[MemberRole.ADMIN]
    async with app.client(await add_key(app.services, admin)) as client:
        response = await client.post("/projects", json={"project": {"org_id": organization.id}})
        assert response.status_code == 201, response.text
    project = response.json()
    project_id = ProjectId(project["project"]["id"])
    await finish_operations(app.services, project_id)
    tokens = {name: await add_key(app.services, account) for name, account in accounts.items()}
    of_org = {"org_id": organization.id}
    tokens["organization key"] = await add_key(app.services, admin, KeyKind.ORGANIZATION, **of_org)
    tokens["project key"] = await add_key(app.services, admin, KeyKind.PROJECT, **of_org, project_id=project_id)
    tokens["revoked key"] = await add_key(app.services, admin, revoked_at=clock.now())
    tokens["unknown key"] = "bough_key_" + "x" * 55
    async with app.services.store.transaction() as rows:
        await add_permission(rows, project_id, admin, accounts["shared with"])
    clients = {name: app.client(token) for name, token in tokens.items()} | {"no key": app.client()}
    yield RightsSetup(
        api_app=app, organization=organization, accounts=accounts, members=members, clients=clients, project=project
    )
    for each in clients.values():
        await each.aclose()


async def add_permission(rows: Rows, project_id: ProjectId, by: Account, to: Account) -> None:
    await rows.grants.add_permission(
        Permission(
            id=PermissionId.new(),
            project_id=project_id,
            email=to.user.email,
            granted_by=by.user.id,
            granted_at=clock.now(),
        )
    )
