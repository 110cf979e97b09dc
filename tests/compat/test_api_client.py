"""The published npm client drives a platform that listens, for every call of its that exists here."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import requires
from compat.listener import Listener

PACKAGE = "@neondatabase/api-client@2.7.3"
SCRIPT = Path(__file__).with_name("drive_api_client.mjs")


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, installed outside the project; its files stay in npm's own cache between runs."""
    npm = requires.require_node()
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    requires.require("node", done.returncode == 0, f"npm could not install {PACKAGE}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"


@pytest.fixture
def seen(node_modules: Path, listening_platform: Listener) -> dict[str, Any]:
    """What the script saw."""
    command = ["node", str(SCRIPT), str(node_modules), f"{listening_platform.url}/api/v2", listening_platform.key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_client_works_unchanged(seen: dict[str, Any]) -> None:
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
