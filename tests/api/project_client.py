"""A client for one project and its branches over the API. Operations do not run by themselves."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from bough.domain.branch import Branch
from bough.domain.role import Role
from bough.ids import BranchId, ProjectId
from support.api_client import Caller, Json
from support.project_rows import read_project_rows

READ_WRITE: Json = {"type": "read_write"}
READ_ONLY: Json = {"type": "read_only"}


@dataclass(frozen=True, slots=True)
class ProjectClient:
    caller: Caller
    creation_response: Json  # the response that created the project

    @property
    def id(self) -> str:
        return str(self.creation_response["project"]["id"])

    @property
    def path(self) -> str:
        return f"/projects/{self.id}"

    @property
    def branches_path(self) -> str:
        return f"{self.path}/branches"

    @property
    def main_branch_id(self) -> str:
        """The id of the root branch, which is the default branch unless the test changes that."""
        return str(self.creation_response["branch"]["id"])

    @property
    def endpoint_id(self) -> str:
        """The id of the root branch's endpoint."""
        return str(self.creation_response["endpoints"][0]["id"])

    def branch_path(self, branch_id: str) -> str:
        return f"{self.branches_path}/{branch_id}"

    def role_path(self, name: str, branch_id: str | None = None) -> str:
        return f"{self.branch_path(branch_id or self.main_branch_id)}/roles/{_quoted(name)}"

    def database_path(self, name: str, branch_id: str | None = None) -> str:
        return f"{self.branch_path(branch_id or self.main_branch_id)}/databases/{_quoted(name)}"

    async def send(self, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        return await self.caller.client.request(method, path, json=body, params=query)

    async def request(self, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Json:
        """Sends a request and checks the status of its response."""
        response = await self.send(method, path, body, **query)
        assert response.status_code == status, f"{method} {path}: {response.text}"
        return response.json() if response.content else {}

    async def finish_operations(self) -> None:
        """Marks all operations as finished."""
        await self.caller.finish_operations(self.id)

    async def request_and_finish(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Json:
        """Sends a request and finishes its operations."""
        done = await self.request(method, path, body, status=status)
        await self.finish_operations()
        return done

    async def expect_error(self, status: int, method: str, path: str, body: Any = None) -> str:
        """Returns the message of a rejected request, and checks that it changed nothing."""
        before = await self.read_state()
        sentence: str = (await self.request(method, path, body, status=status))["message"]
        assert await self.read_state() == before
        return sentence

    async def read_state(self) -> dict[str, list[Json]]:
        """Returns every row of the project in the store, by table."""
        return await read_project_rows(self.caller.api_app.services.store, ProjectId(self.id))

    async def create_branch(self, name: str | None = None, *, endpoints: tuple[Json, ...] = (), **fields: Any) -> Json:
        """Creates a branch, finishes its operations, and returns the response."""
        created = await self.begin_branch(name, endpoints=endpoints, **fields)
        await self.finish_operations()
        return created

    async def begin_branch(self, name: str | None = None, *, endpoints: tuple[Json, ...] = (), **fields: Any) -> Json:
        """Creates a branch, leaves its operations open, and returns the response."""
        requested = {**fields, **({} if name is None else {"name": name})}
        return await self.request(
            "POST", self.branches_path, {"branch": requested, "endpoints": [*endpoints]}, status=201
        )

    async def get_branch(self, branch_id: str) -> Json:
        shown: Json = (await self.request("GET", self.branch_path(branch_id)))["branch"]
        return shown

    async def list_branch_names(self, **query: Any) -> list[str]:
        """Returns the names of the branches on one page."""
        return [each["name"] for each in (await self.request("GET", self.branches_path, **query))["branches"]]

    async def get_branch_row(self, branch_id: str) -> Branch:
        async with self.caller.api_app.services.store.read() as rows:
            found = await rows.branches.get(ProjectId(self.id), BranchId(branch_id))
        assert found is not None
        return found

    async def get_role_rows(self, branch_id: str) -> dict[str, Role]:
        async with self.caller.api_app.services.store.read() as rows:
            return {role.name: role for role in await rows.roles.list_in_branch(BranchId(branch_id))}


async def create_project_client(caller: Caller, **fields: Any) -> ProjectClient:
    """Creates a project and finishes its operations."""
    tree = ProjectClient(caller, await caller.create_project(**fields))
    await tree.finish_operations()
    return tree


def _quoted(name: str) -> str:
    """Quotes a part of a path; dots alone would refer to the parent path."""
    return quote(name, safe="").replace(".", "%2E")


def operation_actions(response: Json) -> list[str]:
    return [operation["action"] for operation in response["operations"]]


def operation_statuses(response: Json) -> list[str]:
    return [operation["status"] for operation in response["operations"]]
