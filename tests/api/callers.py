"""Someone with an account and a key: a user, a personal organization and a client that is theirs.

Every test has its own, so on a platform that is shared no test meets another's rows or limits.
"""

from dataclasses import dataclass
from typing import Any

import httpx2

from api.accounts import Account, add_account, add_key, add_member, add_organization, end_work
from api.front import Front
from bough.control.desk import Desk
from bough.control.recording import Record
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.user import User

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    front: Front
    account: Account
    token: str
    client: httpx2.AsyncClient

    @property
    def user(self) -> User:
        return self.account.user

    @property
    def organization(self) -> Organization:
        return self.account.organization

    async def creates(self, **fields: Any) -> Json:
        """A project, as the answer that made it; its work waits until someone runs it."""
        answer = await self.client.post("/projects", json={"project": fields})
        assert answer.status_code == 201, answer.text
        made: Json = answer.json()
        return made

    async def has(self, **fields: Any) -> str:
        """The id of a project whose work is over."""
        project_id: str = (await self.creates(**fields))["project"]["id"]
        await self.sees_work_end(project_id)
        return project_id

    async def refused(self, status: int = 400, **fields: Any) -> str:
        """The sentence with which a project of these fields is refused."""
        answer = await self.client.post("/projects", json={"project": fields})
        assert answer.status_code == status, answer.text
        return str(answer.json()["message"])

    async def project(self, project_id: str) -> Json:
        answer = await self.client.get(f"/projects/{project_id}")
        assert answer.status_code == 200, answer.text
        shown: Json = answer.json()["project"]
        return shown

    async def names(self, **query: Any) -> list[str]:
        """The names of the projects on one page."""
        answer = await self.client.get("/projects", params=query)
        assert answer.status_code == 200, answer.text
        return [project["name"] for project in answer.json()["projects"]]

    async def sees_work_end(self, project_id: str) -> None:
        await end_work(self.front.parts, project_id)

    async def gets_key(self, kind: KeyKind = KeyKind.PERSONAL, project_id: str | None = None) -> str:
        """Another key of the account."""
        return await add_key(self.front.parts, self.account, kind, project_id=project_id)

    async def founds(self, name: str = "team") -> Organization:
        """An organization for a team, whose admin they are."""
        return await add_organization(self.front.parts, self.account, name)

    async def joins(self, organization: Organization, role: MemberRole = MemberRole.MEMBER) -> Member:
        return await add_member(self.front.parts, organization, self.account, role)

    def at(self, front: Front, **options: Any) -> httpx2.AsyncClient:
        """The same key at another front of the same platform."""
        return front.client(self.token, **options)


async def stale_desk(caller: Caller) -> Desk:
    """A desk for decisions as the caller is now, whatever becomes of them before it is used."""
    parts = caller.front.parts
    async with parts.store.read() as rows:
        principal = await parts.keys.principal(rows, caller.token)
    return parts.desk(principal, Record(principal.actor, "late", address="192.0.2.1", request_id="late"))


async def open_account(front: Front, *, plan: str = "unlimited") -> Caller:
    account = await add_account(front.parts, plan)
    token = await add_key(front.parts, account)
    return Caller(front=front, account=account, token=token, client=front.client(token))
