"""Someone with an account and a key: a user, a personal organization and a client that is theirs.

Every test has its own, so on a platform that is shared no test meets another's rows or limits.
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
        """A project, as the answer that made it; its work waits until someone runs it."""
        answer = await self.client.post("/projects", json={"project": fields})
        assert answer.status_code == 201, answer.text
        made: Json = answer.json()
        return made

    async def create_ready_project(self, **fields: Any) -> str:
        """The id of a project whose work is over."""
        project_id: str = (await self.create_project(**fields))["project"]["id"]
        await self.finish_operations(project_id)
        return project_id

    async def expect_project_error(self, status: int = 400, **fields: Any) -> str:
        """The sentence with which a project of these fields is refused."""
        answer = await self.client.post("/projects", json={"project": fields})
        assert answer.status_code == status, answer.text
        return str(answer.json()["message"])

    async def get_project(self, project_id: str) -> Json:
        answer = await self.client.get(f"/projects/{project_id}")
        assert answer.status_code == 200, answer.text
        shown: Json = answer.json()["project"]
        return shown

    async def list_project_names(self, **query: Any) -> list[str]:
        """The names of the projects on one page."""
        answer = await self.client.get("/projects", params=query)
        assert answer.status_code == 200, answer.text
        return [project["name"] for project in answer.json()["projects"]]

    async def finish_operations(self, project_id: str) -> None:
        await finish_operations(self.api_app.services, project_id)

    async def create_key(self, kind: KeyKind = KeyKind.PERSONAL, project_id: str | None = None) -> str:
        """Another key of the account."""
        return await add_key(self.api_app.services, self.account, kind, project_id=project_id)

    async def create_organization(self, name: str = "team") -> Organization:
        """An organization for a team, whose admin they are."""
        return await add_organization(self.api_app.services, self.account, name)

    async def join_organization(self, organization: Organization, role: MemberRole = MemberRole.MEMBER) -> Member:
        return await add_member(self.api_app.services, organization, self.account, role)

    def client_for(self, front: ApiApp, **options: Any) -> httpx2.AsyncClient:
        """The same key at another front of the same platform."""
        return front.client(self.token, **options)


async def make_stale_context(caller: Caller) -> Context:
    """A context for decisions as the caller is now, whatever becomes of them before it is used."""
    parts = caller.api_app.services
    async with parts.store.read() as rows:
        principal = await parts.keys.authenticate(rows, caller.token)
    audit = AuditRecord(principal.actor, "late", address="192.0.2.1", request_id="late")
    return Context(services=parts, principal=principal, audit=audit)


async def create_caller(front: ApiApp, *, plan: str = "unlimited") -> Caller:
    account = await add_account(front.services, plan)
    token = await add_key(front.services, account)
    return Caller(api_app=front, account=account, token=token, client=front.client(token))
