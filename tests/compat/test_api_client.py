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


def _driven(script: str, node_modules: Path, platform: ServerThread) -> dict[str, Any]:
    """Returns what the script printed."""
    command = ["node", str(HERE / script), str(node_modules), f"{platform.url}/api/v2", platform.key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    response: dict[str, Any] = json.loads(done.stdout)
    return response


def test_the_client_works_unchanged(node_modules: Path, platform_server: ServerThread) -> None:
    seen = _driven("drive_api_client.mjs", node_modules, platform_server)
    assert seen["auth"]["auth_method"] == "api_key_user"
    assert seen["auth"]["account_id"] == seen["me"]["id"]
    assert seen["me"]["billing_account"]
    assert [each["id"] for each in seen["organizations"]] == [seen["created"]["project"]["org_id"]]
    assert seen["regions"][0]["region_id"] == "aws-us-east-2"

    created = seen["created"]
    assert seen["createdStatus"] == 201
    assert seen["ended"] == ["finished", "finished"]
    assert created["databases"][0]["name"] == "shop"
    assert seen["operations"]["operations"][0]["id"] == created["operations"][1]["id"]
    assert seen["operations"]["pagination"]["cursor"]

    assert seen["names"] == ["npm 3", "npm 2", "npm 1"]
    assert seen["shown"]["id"] == created["project"]["id"]
    assert (seen["updated"]["project"]["name"], seen["updated"]["operations"]) == ("npm one", [])
    assert created["connection_uris"][0]["connection_parameters"]["pooler_host"] in seen["uri"]

    assert seen["key"]["id"] in [key["id"] for key in seen["keys"]]
    assert seen["revoked"]["revoked"] is True

    assert seen["deleted"]["id"] == created["project"]["id"]
    assert seen["missing"]["status"] == 404
    assert "could not be found" in seen["missing"]["message"]
    assert created["project"]["id"] in seen["recoverable"]
    assert seen["recovered"]["branches"][0]["id"] == created["branch"]["id"]
    assert (seen["refused"]["status"], seen["refused"]["code"]) == (400, "")


def test_branches_and_all_that_is_theirs(node_modules: Path, platform_server: ServerThread) -> None:
    seen = _driven("drive_branches.mjs", node_modules, platform_server)
    assert seen["forgotten"] == []
    assert set(seen["hasty"]) == {"finished"}
    _check_branches(seen)
    _check_endpoints(seen)
    _check_roles_and_databases(seen)


def _check_branches(seen: dict[str, Any]) -> None:
    created, dev = seen["created"], seen["created"]["branch"]["id"]
    assert (created["status"], created["actions"]) == (201, ["create_branch", "start_compute"])
    assert created["statuses"] == ["finished", "finished"]
    assert created["connection_uris"][0]["connection_parameters"]["host"] == created["endpoints"][0]["host"]
    assert created["roles"][0]["password"]
    assert set(seen["states"]) == {"ready"}
    assert (seen["count"], seen["names"][:2], seen["names"][-1]) == (5, ["main", "dev"], "child")
    assert seen["found"] == ["dev"]
    assert seen["shown"]["branch"]["id"] == dev
    assert seen["shown"]["annotation"]["value"] == seen["annotations"][dev]["value"] == {"ticket": "42"}
    assert datetime.fromisoformat(seen["expiring"]["expires_at"]) == datetime.fromisoformat(seen["soon"])
    assert "expires_at" not in seen["kept"]
    assert (seen["default"]["id"], seen["default"]["default"]) == (dev, True)
    assert (seen["stays"]["status"], "default branch" in seen["stays"]["message"]) == (422, True)
    assert (seen["parent"]["status"], "child branches" in seen["parent"]["message"]) == (422, True)
    assert (seen["resetBranch"]["actions"], seen["resetBranch"]["statuses"]) == (["create_timeline"], ["finished"])
    assert seen["resetBranch"]["branch"]["id"] == seen["restored"]["id"]
    assert seen["restored"]["last_reset_at"]
    assert (seen["itself"]["status"], "source_timestamp" in seen["itself"]["message"]) == (400, True)
    assert (seen["deleted"]["actions"], seen["deleted"]["branch"]["recovery"]["deletion_method"]) == ([], "user")
    assert (seen["recovered"]["branch"]["id"], seen["recovered"]["endpoints"]) == (seen["deleted"]["branch"]["id"], [])
    assert (seen["again"], seen["missing"]["status"], seen["deletedToo"]) == (204, 404, 5)


def _check_endpoints(seen: dict[str, Any]) -> None:
    endpoint = seen["endpoint"]["endpoint"]
    assert (seen["endpoint"]["status"], seen["endpoint"]["statuses"]) == (201, ["finished"])
    assert endpoint["suspend_timeout_seconds"] == 120
    assert (seen["second"]["status"], "already has a read_write endpoint" in seen["second"]["message"]) == (422, True)
    assert (seen["active"], seen["ofBranch"], seen["ofProject"]) == ("active", [endpoint["id"]], 3)
    assert seen["updated"]["endpoint"]["name"] == "mine"
    assert seen["verbs"] == [["suspend_compute"], ["start_compute"], ["suspend_compute", "start_compute"]]
    assert seen["noEndpoint"]["actions"] == ["suspend_compute"]


def _check_roles_and_databases(seen: dict[str, Any]) -> None:
    name = 'It\'s "grün"/100% & more'
    assert (seen["role"]["status"], seen["role"]["role"]["name"]) == (201, name)
    assert set(seen["roles"]) == {"app", "neondb_owner", name}
    assert (seen["oneRole"]["name"], "password" in seen["oneRole"]) == (name, False)
    assert seen["password"] == seen["reset"]["role"]["password"] != seen["role"]["role"]["password"]
    assert (seen["database"]["status"], seen["databases"]) == (201, ["neondb", name])
    assert (seen["oneDatabase"]["name"], seen["oneDatabase"]["owner_name"]) == (name, name)
    assert (seen["owner"]["status"], "owns the database" in seen["owner"]["message"]) == (422, True)
    assert seen["given"]["database"]["owner_name"] == "app"
    for change in ("role", "reset", "database", "given", "dropped", "left"):
        assert (seen[change]["actions"], seen[change]["statuses"]) == (["apply_config"], ["finished"]), change
    assert seen["nothing"] == 204


def test_organizations_keys_sharing_and_transfer(node_modules: Path, platform_server: ServerThread) -> None:
    seen = _driven("drive_people.mjs", node_modules, platform_server)
    assert [name for name in seen["forgotten"] if not NOT_OFFERED.search(name)] == []
    assert (seen["organization"]["name"], seen["orchard"] in seen["mine"]) == ("Orchard", True)
    assert seen["member"]["role"] == "admin"
    for refusal in ("demoted", "left"):
        assert (seen[refusal]["status"], "last admin" in seen[refusal]["message"]) == (422, True)
    assert [each["email"] for each in seen["invited"]] == ["ada@example.com"]
    assert seen["invitations"] == seen["invited"]
    assert [(key["name"], "project_id" in key) for key in seen["keys"]] == [("all", False), ("one", True)]
    assert seen["orgKey"]["key"] != seen["projectKey"]["key"]
    assert seen["revoked"]["revoked"] is True
    assert [each["granted_to_email"] for each in seen["permissions"]] == ["ben@example.com"]
    assert seen["unshared"]["revoked_at"]
    assert seen["shared"] == []
    assert (seen["transferred"], seen["given"], seen["owner"], seen["remaining"]) == ({}, {}, True, 0)
    assert (seen["offered"], seen["again"]["status"]) == ([201, 204], 404)
    assert seen["elsewhere"]["status"] == 404


def test_snapshots(node_modules: Path, platform_server: ServerThread) -> None:
    seen = _driven("drive_snapshots.mjs", node_modules, platform_server)
    assert seen["forgotten"] == []
    created = seen["created"]
    assert (created["status"], created["actions"], created["statuses"]) == (200, ["create_branch"], ["finished"])
    assert (seen["both"]["status"], "not both" in seen["both"]["message"]) == (400, True)
    assert [each["name"] for each in seen["listed"]] == [seen["updated"]["name"]] == ["kept"]
    assert seen["listed"][0]["diff_size"] > 0
    restored, finalized = seen["restored"], seen["finalized"]
    assert (restored["status"], restored["branch"]["name"]) == (200, "look")
    assert (restored["actions"], set(restored["statuses"])) == (["create_branch", "start_compute"], {"finished"})
    assert (finalized["actions"], set(finalized["statuses"])) == (["create_timeline", "start_compute"], {"finished"})
    assert (seen["new"]["name"], seen["new"]["restore_status"], seen["old"]["name"]) == ("main", "finalized", "before")
    assert seen["new"]["restored_as"] == seen["old"]["id"]
    assert (seen["twice"]["status"], "already finalized" in seen["twice"]["message"]) == (422, True)
    assert seen["oneStep"]["actions"] == ["create_branch", "create_timeline", "start_compute"]
    assert set(seen["oneStep"]["statuses"]) == {"finished"}
    assert seen["names"] == ["before", "main", "main (old)"]
    assert [(each["id"], each["current_state"]) for each in seen["endpoints"]] == [(seen["endpoint"], "active")]
    assert (seen["set"], seen["schedule"][0]["frequency"]) == ({}, "daily")
    assert (seen["deleted"]["status"], seen["deleted"]["statuses"], seen["left"]) == (202, ["finished"], [])
