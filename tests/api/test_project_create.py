"""Creating a project: every documented field is stored and returned, and the others have defaults."""

import re
from typing import Any

import pytest

from api.project_settings import ENDPOINT_SETTINGS, SETTINGS
from bough.ids import BranchId, ProjectId
from support.api_app import ApiApp
from support.api_client import Caller, Json

WITHOUT_DOTS = re.compile(r"postgresql://[^:@/?.]+:\w+@ep-[^/]+/[^/?.]+\?channel_binding=require&sslmode=require")


async def test_every_field_is_kept_and_shown(caller: Caller) -> None:
    created = await caller.create_project(
        name="Everything 🌿",
        settings=SETTINGS,
        default_endpoint_settings=ENDPOINT_SETTINGS,
        branch={"name": "trunk", "role_name": "owner", "database_name": "shop", "annotations": {"ticket": "42"}},
        provisioner="k8s-pod",
        region_id="aws-us-east-2",
        pg_version=17,
        store_passwords=False,
        history_retention_seconds=3600,
        org_id=caller.organization.id,
    )
    shown = await caller.get_project(created["project"]["id"])
    for project in (created["project"], shown):
        assert project["name"] == "Everything 🌿"
        assert project["settings"] == SETTINGS
        assert project["default_endpoint_settings"] == ENDPOINT_SETTINGS
        assert (project["provisioner"], project["region_id"], project["pg_version"]) == ("k8s-pod", "aws-us-east-2", 17)
        assert (project["store_passwords"], project["history_retention_seconds"]) == (False, 3600)
        assert (project["org_id"], project["owner_id"]) == (caller.organization.id,) * 2
    assert created["branch"]["name"] == "trunk"
    assert [role["name"] for role in created["roles"]] == ["owner"]
    assert [(each["name"], each["owner_name"]) for each in created["databases"]] == [("shop", "owner")]
    async with caller.api_app.platform.store.read() as rows:
        branch = await rows.branches.get(ProjectId(shown["id"]), BranchId(created["branch"]["id"]))
    assert branch is not None
    assert branch.annotations == {"ticket": "42"}


async def test_the_endpoint_follows_the_projects_defaults(caller: Caller) -> None:
    (endpoint,) = (await caller.create_project(default_endpoint_settings=ENDPOINT_SETTINGS))["endpoints"]
    assert (endpoint["autoscaling_limit_min_cu"], endpoint["autoscaling_limit_max_cu"]) == (0.5, 2)
    assert endpoint["suspend_timeout_seconds"] == 600
    assert endpoint["settings"] == {
        "pg_settings": {"work_mem": "8MB"},
        "pgbouncer_settings": {"pool_mode": "transaction"},
    }


async def test_the_older_way_to_give_sizes_works_too(caller: Caller) -> None:
    created = await caller.create_project(autoscaling_limit_min_cu=1, autoscaling_limit_max_cu=4)
    assert created["endpoints"][0]["autoscaling_limit_min_cu"] == 1
    assert created["project"]["default_endpoint_settings"]["autoscaling_limit_max_cu"] == 4
    only_max = await caller.create_project(autoscaling_limit_max_cu=2)
    assert only_max["endpoints"][0]["autoscaling_limit_min_cu"] == 0.25


@pytest.mark.parametrize("extra", [{}, {"unknown": 1, "branch": {"also_unknown": [2]}}])
async def test_what_was_not_said_has_a_default(caller: Caller, extra: Json) -> None:
    created = await caller.create_project(**extra)
    project = created["project"]
    assert project["name"] == project["id"]
    assert (project["pg_version"], project["region_id"]) == (17, "aws-us-east-2")
    assert (project["store_passwords"], project["history_retention_seconds"]) == (True, 86400)
    assert created["branch"]["name"] == "main"
    assert (created["branch"]["default"], created["branch"]["protected"]) == (True, False)
    assert [role["name"] for role in created["roles"]] == ["neondb_owner"]
    assert [database["name"] for database in created["databases"]] == ["neondb"]
    assert created["endpoints"][0]["type"] == "read_write"


async def test_the_answer_belongs_together(caller: Caller) -> None:
    created = await caller.create_project()
    project_id, branch_id = created["project"]["id"], created["branch"]["id"]
    (endpoint,), (role,), (database,) = created["endpoints"], created["roles"], created["databases"]
    (details,) = created["connection_uris"]
    assert created["branch"]["project_id"] == endpoint["project_id"] == project_id
    assert endpoint["branch_id"] == role["branch_id"] == database["branch_id"] == branch_id
    parameters = details["connection_parameters"]
    assert parameters["host"] == endpoint["host"]
    assert parameters["password"] == role["password"]
    assert (parameters["role"], parameters["database"]) == (role["name"], database["name"])


async def test_two_operations_are_under_way(caller: Caller) -> None:
    created = await caller.create_project()
    first, second = created["operations"]
    assert (first["action"], first["status"]) == ("create_timeline", "running")
    assert (second["action"], second["status"]) == ("start_compute", "scheduling")
    assert first["branch_id"] == second["branch_id"] == created["branch"]["id"]
    assert second["endpoint_id"] == created["endpoints"][0]["id"]
    assert created["branch"]["current_state"] == "init"
    assert (created["endpoints"][0]["current_state"], created["endpoints"][0]["pending_state"]) == ("init", "active")


async def test_no_two_projects_share_an_id_a_host_or_a_password(caller: Caller) -> None:
    created = [await caller.create_project(name="same") for _ in range(5)]
    for unique in (
        {each["project"]["id"] for each in created},
        {each["endpoints"][0]["host"] for each in created},
        {each["roles"][0]["password"] for each in created},
    ):
        assert len(unique) == 5


async def test_names_that_databases_allow_are_allowed(caller: Caller) -> None:
    odd: list[Any] = ["Ünïcode", "with space", "semi;colon", 'quo"te', "a" * 63, "1st", "select", "dot.ted", "sl/ash"]
    for name in odd:
        created = await caller.create_project(branch={"role_name": name, "database_name": name})
        uri = created["connection_uris"][0]["connection_uri"]
        assert re.fullmatch(
            r"postgresql://[^:@/?.]+:\w+@ep-[^/]+/[^/?.]+\?channel_binding=require&sslmode=require", uri
        )


async def test_a_project_is_made_in_the_organization_that_is_named(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    assert (await caller.expect_project_error(404, org_id=stranger.organization.id)).startswith(
        "The requested organization"
    )
    assert (await caller.create_project(org_id=caller.organization.id))["project"]["org_id"] == caller.organization.id
