"""The library of the published command-line tool creates an instant database with its own UUID."""

import json
import subprocess
from pathlib import Path

import pytest

from compat.server_thread import ServerThread
from support import requirements

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return requirements.install_npm_packages(tmp_path_factory.mktemp("npm"), "get-db")


def test_the_tool_works_unchanged(node_modules: Path, platform_server: ServerThread, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    command = ["node", str(HERE / "drive_get_db.mjs"), str(node_modules), platform_server.url, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["requests"] == ["POST /api/v1/database/{uuid}", "GET /api/v1/database/{uuid}"]
    assert "-pooler." in results["created"]["databaseUrl"]
    assert results["created"]["databaseUrlDirect"] in file.read_text()
