"""A caller of the API: a user with a personal organization, a key and an HTTP client.

Every test creates its own callers, so tests on a shared platform do not see each other's rows and limits.
"""

from dataclasses import dataclass
from typing import Any

import httpx2

from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.user import User
from support.accounts import Account, add_account, add_key, add_member, add_organization, finish_operations
from support.api_app import ApiApp

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    api_app: ApiApp
    account: Account
    token: str
    client: httpx2.AsyncClient

    @property
    def user(self) -> User:
        return self.account.user

    @property
    def organization(self) -> Organization:
        return self.account.organization

    async def create_project(self, **fields: Any) -> Json:
        """Create a project and return the response. Its operations wait until the test runs them."""
        response = await self.client.post("/projects", json={"project": fields})
        assert response.status_code == 201, response.text
        created: Json = response.json()
        return created

    async def create_ready_project(self, **fields: Any) -> str:
        """Create a project, mark its operations as finished and return its id."""
        project_id: str = (await self.create_project(**fields))["project"]["id"]
        await self.finish_operations(project_id)
        return project_id

    async def expect_project_error(self, status: int = 400, **fields: Any) -> str:
        """Return the message with which a project with these fields is rejected."""
        response = await self.client.post("/projects", json={"project": fields})
        assert response.status_code == status, response.text
        return str(response.json()["message"])

    async def get_project(self, project_id: str) -> Json:
        response = await self.client.get(f"/projects/{project_id}")
        assert response.status_code == 200, response.text
        project: Json = response.json()["project"]
        return project

    async def list_project_names(self, **query: Any) -> list[str]:
        """Return the names of the projects on one page."""
        response = await self.client.get("/projects", params=query)
        assert response.status_code == 200, response.text
        return [project["name"] for project in response.json()["projects"]]

    async def finish_operations(self, project_id: str) -> None:
        await finish_operations(self.api_app.services, project_id)

    async def create_key(self, kind: KeyKind = KeyKind.PERSONAL, project_id: str | None = None) -> str:
        """Create another key of the account."""
        return await add_key(self.api_app.services, self.account, kind, project_id=project_id)

    async def create_organization(self, name: str = "team") -> Organization:
        """Create an organization for a team; the caller is its admin."""
        return await add_organization(self.api_app.services, self.account, name)

    async def join_organization(self, organization: Organization, role: MemberRole = MemberRole.MEMBER) -> Member:
        return await add_member(self.api_app.services, organization, self.account, role)

    def client_for(self, api_app: ApiApp, **options: Any) -> httpx2.AsyncClient:
        """Return a client with the same key for another API app of the same platform."""
        return api_app.client(self.token, **options)


async def make_stale_context(caller: Caller) -> Context:
    """Return a context with the present rights of the caller, which may change before it is used."""
    services = caller.api_app.services
    async with services.store.read() as rows:
        principal = await services.keys.authenticate(rows, caller.token)
    audit = AuditRecord(principal.actor, "late", address="192.0.2.1", request_id="late")
    return Context(services=services, principal=principal, audit=audit)


async def create_caller(api_app: ApiApp, *, plan: str = "unlimited") -> Caller:
    account = await add_account(api_app.services, plan)
    token = await add_key(api_app.services, account)
    return Caller(api_app=api_app, account=account, token=token, client=api_app.client(token))
