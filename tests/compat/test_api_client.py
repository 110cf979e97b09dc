"""The published npm client against a listening platform, for each of its methods that is implemented."""

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from compat.server_thread import ServerThread
from support import requirements

HERE = Path(__file__).parent
# Methods that are not in the contract.
NOT_OFFERED = re.compile(r"Vpc|SpendingLimit|Auth")


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the client outside the project; npm caches its files between runs."""
    return requirements.install_npm_packages(tmp_path_factory.mktemp("npm"), "api-client")


def _run_script(script: str, node_modules: Path, platform: ServerThread) -> dict[str, Any]:
    """Runs the script and returns the JSON that it printed."""
    command = ["node", str(HERE / script), str(node_modules), f"{platform.url}/api/v2", platform.key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_the_client_works_unchanged(node_modules: Path, platform_server: ServerThread) -> None:
    results = _run_script("drive_api_client.mjs", node_modules, platform_server)
    assert results["auth"]["auth_method"] == "api_key_user"
    assert results["auth"]["account_id"] == results["me"]["id"]
    assert results["me"]["billing_account"]
    assert [each["id"] for each in results["organizations"]] == [results["created"]["project"]["org_id"]]
    assert results["regions"][0]["region_id"] == "aws-us-east-2"

    created = results["created"]
    assert results["createdStatus"] == 201
    assert results["ended"] == ["finished", "finished"]
    assert created["databases"][0]["name"] == "shop"
    assert results["operations"]["operations"][0]["id"] == created["operations"][1]["id"]
    assert results["operations"]["pagination"]["cursor"]

    assert results["names"] == ["npm 3", "npm 2", "npm 1"]
    assert results["shown"]["id"] == created["project"]["id"]
    assert (results["updated"]["project"]["name"], results["updated"]["operations"]) == ("npm one", [])
    assert created["connection_uris"][0]["connection_parameters"]["pooler_host"] in results["uri"]

    libraries = {each["library_name"]: each for each in results["libraries"]}
    assert [name for name, each in libraries.items() if each["is_default"]] == ["pg_stat_statements"]
    assert {"auto_explain", "pg_cron", "pgaudit"} < libraries.keys()
    assert results["preloading"]["preload_libraries"]["enabled_libraries"] == ["neon", "auto_explain,pg_prewarm"]
    assert results["unknownLibrary"]["status"] == 400
    assert "pg_stat_statements" in results["unknownLibrary"]["message"]

    assert results["key"]["id"] in [key["id"] for key in results["keys"]]
    assert results["revoked"]["revoked"] is True

    assert results["deleted"]["id"] == created["project"]["id"]
    assert results["missing"]["status"] == 404
    assert "could not be found" in results["missing"]["message"]
    assert created["project"]["id"] in results["recoverable"]
    assert results["recovered"]["branches"][0]["id"] == created["branch"]["id"]
    assert (results["refused"]["status"], results["refused"]["code"]) == (400, "")


def test_consumption_is_read_with_every_method_that_was_ever_published(
    node_modules: Path, platform_server: ServerThread
) -> None:
    results = _run_script("drive_consumption.mjs", node_modules, platform_server)
    (project,) = results["projects"]["projects"]
    (project_v2,) = results["projectsV2"]["projects"]
    (branch,) = results["branchesV2"]["branches"]
    assert project["project_id"] == project_v2["project_id"] == branch["project_id"] == results["id"]
    assert branch["branch_id"] == results["branch"]
    (bucket,) = project["periods"][-1]["consumption"]
    (total,) = results["account"]["periods"][-1]["consumption"]
    assert total["active_time_seconds"] >= bucket["active_time_seconds"] > 0
    names = ["compute_unit_seconds", "root_branch_bytes_month"]
    for periods in (project_v2["periods"], branch["periods"]):
        assert [each["metric_name"] for each in periods[-1]["consumption"][0]["metrics"]] == names
    assert results["early"]["status"] == 406
    assert results["forgotten"] == []


def test_branches_and_all_that_is_theirs(node_modules: Path, platform_server: ServerThread) -> None:
    results = _run_script("drive_branches.mjs", node_modules, platform_server)
    assert results["forgotten"] == []
    assert set(results["hasty"]) == {"finished"}
    _check_branches(results)
    _check_endpoints(results)
    _check_roles_and_databases(results)


def _check_branches(results: dict[str, Any]) -> None:
    created, dev = results["created"], results["created"]["branch"]["id"]
    assert (created["status"], created["actions"]) == (201, ["create_branch", "start_compute"])
    assert created["statuses"] == ["finished", "finished"]
    assert created["connection_uris"][0]["connection_parameters"]["host"] == created["endpoints"][0]["host"]
    assert created["roles"][0]["password"]
    assert set(results["states"]) == {"ready"}
    assert (results["count"], results["names"][:2], results["names"][-1]) == (5, ["main", "dev"], "child")
    assert results["found"] == ["dev"]
    assert results["shown"]["branch"]["id"] == dev
    assert results["shown"]["annotation"]["value"] == results["annotations"][dev]["value"] == {"ticket": "42"}
    assert datetime.fromisoformat(results["expiring"]["expires_at"]) == datetime.fromisoformat(results["soon"])
    assert "expires_at" not in results["kept"]
    assert (results["default"]["id"], results["default"]["default"]) == (dev, True)
    assert (results["stays"]["status"], "default branch" in results["stays"]["message"]) == (422, True)
    assert (results["parent"]["status"], "child branches" in results["parent"]["message"]) == (422, True)
    assert (results["resetBranch"]["actions"], results["resetBranch"]["statuses"]) == (
        ["create_timeline"],
        ["finished"],
    )
    assert results["resetBranch"]["branch"]["id"] == results["restored"]["id"]
    assert results["restored"]["last_reset_at"]
    assert (results["itself"]["status"], "source_timestamp" in results["itself"]["message"]) == (400, True)
    assert (results["deleted"]["actions"], results["deleted"]["branch"]["recovery"]["deletion_method"]) == ([], "user")
    assert (results["recovered"]["branch"]["id"], results["recovered"]["endpoints"]) == (
        results["deleted"]["branch"]["id"],
        [],
    )
    assert (results["again"], results["missing"]["status"], results["deletedToo"]) == (204, 404, 5)


def _check_endpoints(results: dict[str, Any]) -> None:
    endpoint = results["endpoint"]["endpoint"]
    assert (results["endpoint"]["status"], results["endpoint"]["statuses"]) == (201, ["finished"])
    assert endpoint["suspend_timeout_seconds"] == 120
    assert (results["second"]["status"], "already has a read_write endpoint" in results["second"]["message"]) == (
        422,
        True,
    )
    assert (results["active"], results["ofBranch"], results["ofProject"]) == ("active", [endpoint["id"]], 3)
    assert results["updated"]["endpoint"]["name"] == "mine"
    assert results["verbs"] == [["suspend_compute"], ["start_compute"], ["suspend_compute", "start_compute"]]
    assert results["noEndpoint"]["actions"] == ["suspend_compute"]


def _check_roles_and_databases(results: dict[str, Any]) -> None:
    name = 'It\'s "grün"/100% & more'
    assert (results["role"]["status"], results["role"]["role"]["name"]) == (201, name)
    assert set(results["roles"]) == {"app", "neondb_owner", name}
    assert (results["oneRole"]["name"], "password" in results["oneRole"]) == (name, False)
    assert results["password"] == results["reset"]["role"]["password"] != results["role"]["role"]["password"]
    assert (results["database"]["status"], results["databases"]) == (201, ["neondb", name])
    assert (results["oneDatabase"]["name"], results["oneDatabase"]["owner_name"]) == (name, name)
    assert (results["owner"]["status"], "owns the database" in results["owner"]["message"]) == (422, True)
    assert results["given"]["database"]["owner_name"] == "app"
    for change in ("role", "reset", "database", "given", "dropped", "left"):
        assert (results[change]["actions"], results[change]["statuses"]) == (["apply_config"], ["finished"]), change
    assert results["nothing"] == 204


def test_organizations_keys_sharing_and_transfer(node_modules: Path, platform_server: ServerThread) -> None:
    results = _run_script("drive_people.mjs", node_modules, platform_server)
    assert [name for name in results["forgotten"] if not NOT_OFFERED.search(name)] == []
    assert (results["organization"]["name"], results["orchard"] in results["mine"]) == ("Orchard", True)
    assert results["member"]["role"] == "admin"
    for refusal in ("demoted", "left"):
        assert (results[refusal]["status"], "last admin" in results[refusal]["message"]) == (422, True)
    assert [each["email"] for each in results["invited"]] == ["ada@example.com"]
    assert results["invitations"] == results["invited"]
    assert [(key["name"], "project_id" in key) for key in results["keys"]] == [("all", False), ("one", True)]
    assert results["orgKey"]["key"] != results["projectKey"]["key"]
    assert results["revoked"]["revoked"] is True
    assert [each["granted_to_email"] for each in results["permissions"]] == ["ben@example.com"]
    assert results["unshared"]["revoked_at"]
    assert results["shared"] == []
    assert (results["transferred"], results["given"], results["owner"], results["remaining"]) == ({}, {}, True, 0)
    assert (results["offered"], results["again"]["status"]) == ([201, 204], 404)
    assert results["elsewhere"]["status"] == 404


def test_snapshots(node_modules: Path, platform_server: ServerThread) -> None:
    results = _run_script("drive_snapshots.mjs", node_modules, platform_server)
    assert results["forgotten"] == []
    created = results["created"]
    assert (created["status"], created["actions"], created["statuses"]) == (200, ["create_branch"], ["finished"])
    assert (results["both"]["status"], "not both" in results["both"]["message"]) == (400, True)
    assert [each["name"] for each in results["listed"]] == [results["updated"]["name"]] == ["kept"]
    assert results["listed"][0]["diff_size"] > 0
    restored, finalized = results["restored"], results["finalized"]
    assert (restored["status"], restored["branch"]["name"]) == (200, "look")
    assert (restored["actions"], set(restored["statuses"])) == (["create_branch", "start_compute"], {"finished"})
    assert (finalized["actions"], set(finalized["statuses"])) == (["create_timeline", "start_compute"], {"finished"})
    assert (results["new"]["name"], results["new"]["restore_status"], results["old"]["name"]) == (
        "main",
        "finalized",
        "before",
    )
    assert results["new"]["restored_as"] == results["old"]["id"]
    assert (results["twice"]["status"], "already finalized" in results["twice"]["message"]) == (422, True)
    assert results["oneStep"]["actions"] == ["create_branch", "create_timeline", "start_compute"]
    assert set(results["oneStep"]["statuses"]) == {"finished"}
    assert results["names"] == ["before", "main", "main (old)"]
    assert [(each["id"], each["current_state"]) for each in results["endpoints"]] == [(results["endpoint"], "active")]
    assert (results["set"], results["schedule"][0]["frequency"]) == ({}, "daily")
    assert (results["deleted"]["status"], results["deleted"]["statuses"], results["left"]) == (202, ["finished"], [])
