"""Rule 19: creating more organizations gives a person no more resources than the plan allows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from bough.config import DEFAULT_PLANS, Plan
from bough.control.people import accounts
from bough.domain.user import OPERATOR
from bough.ids import OrganizationId
from bough.store import schema
from bough.store.sqlite import SqliteStore
from support.accounts import Account, add_key
from support.api_app import ApiApp, open_api_app
from support.api_client import Caller
from support.postgres import PostgresServer
from support.stores import BACKENDS

PLANS = {
    **{name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()},
    "free": Plan(organizations=3, projects=4),
}


@pytest.fixture(params=BACKENDS)
async def api_app(request: pytest.FixtureRequest) -> AsyncIterator[ApiApp]:
    changes: dict[str, Any] = {"plans": PLANS}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        changes["store_url"] = await server.create_store_database()
    async with open_api_app(**changes) as opened:
        yield opened


@asynccontextmanager
async def open_account(api_app: ApiApp) -> AsyncIterator[Caller]:
    """Creates an account with the default plan and its personal organization, and yields a client with its key."""
    async with api_app.services.store.transaction() as rows:
        user = await accounts.add_account(rows, f"{OrganizationId.new()}@example.com", "Ada", None)
        organization = await rows.organizations.get_personal(user.id)
        assert organization is not None
    account = Account(user, organization)
    token = await add_key(api_app.services, account)
    caller = Caller(api_app=api_app, account=account, token=token, client=api_app.client(token))
    async with caller.client:
        yield caller


async def create_organization(caller: Caller, name: str = "team") -> httpx2.Response:
    return await caller.client.post("/bough/organizations", json={"name": name})


async def create_projects(caller: Caller, *org_ids: str) -> list[httpx2.Response]:
    """Creates one project in each organization, concurrently."""
    return await asyncio.gather(
        *(caller.client.post("/projects", json={"project": {"org_id": org_id}}) for org_id in org_ids)
    )


async def test_organizations_and_their_projects_are_counted_together(api_app: ApiApp) -> None:
    async with open_account(api_app) as ada, open_account(api_app) as bob:
        responses = await asyncio.gather(*(create_organization(ada) for _ in range(6)))
        statuses = sorted(response.status_code for response in responses)
        assert statuses == [201] * 3 + [422] * 3, "six concurrent requests"
        error = next(response.json() for response in responses if response.status_code == 422)
        assert error["code"] == "ORGANIZATIONS_LIMIT_EXCEEDED"
        assert "your plan allows 3" in error["message"] and "ask the operator" in error["message"]

        teams = [response.json()["id"] for response in responses if response.status_code == 201]
        created = await create_projects(ada, ada.organization.id, *teams, *teams)
        assert sorted(response.status_code for response in created) == [201] * 4 + [422] * 3
        error = next(response.json() for response in created if response.status_code == 422)
        assert error["code"] == "PROJECTS_LIMIT_EXCEEDED"
        assert "The 4 organizations on this plan that one person created have together 4 projects" in error["message"]

        assert (await create_organization(bob)).status_code == 201, "another person has limits of their own"
        assert (await create_projects(bob, bob.organization.id))[0].status_code == 201

        # A transfer between organizations of one person does not count as another project.
        project = next(response.json()["project"] for response in created if response.status_code == 201)
        await ada.finish_operations(project["id"])
        destination = next(team for team in (*teams, ada.organization.id) if team != project["org_id"])
        body = {"destination_org_id": destination, "project_ids": [project["id"]]}
        source = project["org_id"]
        personal = source == ada.organization.id
        path = "/users/me/projects/transfer" if personal else f"/organizations/{source}/projects/transfer"
        assert (await ada.client.post(path, json=body)).status_code == 200


async def test_who_has_more_already_keeps_it(api_app: ApiApp) -> None:
    async with open_account(api_app) as ada:
        for _ in range(3):
            assert (await create_organization(ada)).status_code == 201
        smaller = ApiApp(api_app.platform, plans={**PLANS, "free": Plan(organizations=1, projects=1)})
        await create_projects(ada, ada.organization.id, ada.organization.id)
        async with ada.client_for(smaller) as client:
            assert len((await client.get("/users/me/organizations")).json()["organizations"]) == 4
            assert len((await client.get("/projects")).json()["projects"]) == 2
            assert (await client.post("/bough/organizations", json={"name": "x"})).status_code == 422
            assert (await client.post("/projects", json={"project": {}})).status_code == 422


async def test_the_first_admin_of_an_old_organization_created_it(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.connect() as connection:
        schema.upgrade(connection, backup=None, to="0007")
        for user in ("first", "second"):
            connection.execute(
                sa.text(
                    "insert into users (id, email, name, last_name, plan, created_at, updated_at) "
                    f"values ('{user}', '{user}@example.com', '', '', 'free', 1, 1)"
                )
            )
        connection.execute(
            sa.text(
                "insert into organizations (id, name, handle, plan, created_at, updated_at) "
                "values ('org-team', 'team', 'org-team', 'free', 1, 1)"
            )
        )
        for user, role, joined in (("second", "admin", 2), ("first", "admin", 1)):
            connection.execute(
                sa.text(
                    "insert into members (org_id, user_id, role, joined_at, id) "
                    f"values ('org-team', '{user}', '{role}', {joined}, 'member-{user}')"
                )
            )
        connection.commit()
    engine.dispose()
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    async with store.read() as rows:
        team = await rows.organizations.get(OrganizationId("org-team"))
        personal = await rows.organizations.get_personal(OPERATOR)
    await store.close()
    assert team is not None and personal is not None
    assert (team.created_by, personal.created_by) == ("first", OPERATOR)
