"""A project with its branches, as someone meets them over the API; nobody does the work behind it."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from api.callers import Caller, Json
from bough.domain.branch import Branch
from bough.domain.role import Role
from bough.ids import BranchId, ProjectId

READ_WRITE: Json = {"type": "read_write"}
READ_ONLY: Json = {"type": "read_only"}


@dataclass(frozen=True, slots=True)
class Tree:
    caller: Caller
    made: Json  # the answer that made the project

    @property
    def id(self) -> str:
        return str(self.made["project"]["id"])

    @property
    def path(self) -> str:
        return f"/projects/{self.id}"

    @property
    def branches(self) -> str:
        return f"{self.path}/branches"

    @property
    def main(self) -> str:
        """The id of the root, which is the default branch until another is."""
        return str(self.made["branch"]["id"])

    @property
    def endpoint(self) -> str:
        """The id of the root's endpoint."""
        return str(self.made["endpoints"][0]["id"])

    def of(self, branch_id: str) -> str:
        return f"{self.branches}/{branch_id}"

    def role(self, name: str, branch_id: str | None = None) -> str:
        return f"{self.of(branch_id or self.main)}/roles/{_quoted(name)}"

    def database(self, name: str, branch_id: str | None = None) -> str:
        return f"{self.of(branch_id or self.main)}/databases/{_quoted(name)}"

    async def answer(self, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        return await self.caller.client.request(method, path, json=body, params=query)

    async def ask(self, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Json:
        """One request with the answer it must have."""
        answer = await self.answer(method, path, body, **query)
        assert answer.status_code == status, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else {}

    async def settles(self) -> None:
        """The rows say that all work is done."""
        await self.caller.sees_work_end(self.id)

    async def does(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Json:
        """A request and the end of its work."""
        done = await self.ask(method, path, body, status=status)
        await self.settles()
        return done

    async def refused(self, status: int, method: str, path: str, body: Any = None) -> str:
        """The sentence with which it is refused, after which nothing is other than it was."""
        before = await self.picture()
        sentence: str = (await self.ask(method, path, body, status=status))["message"]
        assert await self.picture() == before
        return sentence

    async def picture(self) -> Json:
        """What lists show of its branches, endpoints and work, and of the root's roles and databases."""
        paths = [self.branches, f"{self.path}/endpoints", f"{self.path}/operations"]
        paths += [f"{self.of(self.main)}/{kind}" for kind in ("roles", "databases")]
        return {path: (await self.answer("GET", path)).json() for path in paths}

    async def grows(self, name: str | None = None, *, endpoints: tuple[Json, ...] = (), **fields: Any) -> Json:
        """A branch, as the answer that made it; its work is over."""
        made = await self.begins(name, endpoints=endpoints, **fields)
        await self.settles()
        return made

    async def begins(self, name: str | None = None, *, endpoints: tuple[Json, ...] = (), **fields: Any) -> Json:
        """A branch, as the answer that made it; its work waits until someone does it."""
        asked = {**fields, **({} if name is None else {"name": name})}
        return await self.ask("POST", self.branches, {"branch": asked, "endpoints": [*endpoints]}, status=201)

    async def branch(self, branch_id: str) -> Json:
        shown: Json = (await self.ask("GET", self.of(branch_id)))["branch"]
        return shown

    async def names(self, **query: Any) -> list[str]:
        """Of the branches on one page."""
        return [each["name"] for each in (await self.ask("GET", self.branches, **query))["branches"]]

    async def branch_row(self, branch_id: str) -> Branch:
        async with self.caller.front.parts.store.read() as rows:
            found = await rows.branches.get(ProjectId(self.id), BranchId(branch_id))
        assert found is not None
        return found

    async def role_rows(self, branch_id: str) -> dict[str, Role]:
        async with self.caller.front.parts.store.read() as rows:
            return {role.name: role for role in await rows.roles.of_branch(BranchId(branch_id))}


async def plant(caller: Caller, **fields: Any) -> Tree:
    """A project whose work is over."""
    tree = Tree(caller, await caller.creates(**fields))
    await tree.settles()
    return tree


def _quoted(name: str) -> str:
    """As one part of a path; dots alone would be a way up in it."""
    return quote(name, safe="").replace(".", "%2E")


def actions(answer: Json) -> list[str]:
    return [operation["action"] for operation in answer["operations"]]


def statuses(answer: Json) -> list[str]:
    return [operation["status"] for operation in answer["operations"]]
