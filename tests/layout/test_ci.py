"""The CI script and the hosted workflow: which requirements they make mandatory."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "run"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
ALL_PARTS = ["contract", "cow", "browser", "root", "node", "psql"]
INSTALLED = ("python3", "git", "npm", "mkfs.xfs", "mkfs.btrfs", "psql", "chromium")


@pytest.fixture
def path_with_stubs(tmp_path: Path) -> str:
    """A PATH on which every package is installed and `make` only prints its target and BOUGH_REQUIRE."""
    stubs = dict.fromkeys(INSTALLED, "exit 0")
    stubs |= {"make": 'echo "$1 ${BOUGH_REQUIRE-unset}"', "apt-get": "exit 1"}
    for name, body in stubs.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    for name in ("bash", "dirname", "env"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    return str(tmp_path)


def _run_ci(path: str, **variables: str) -> list[str]:
    variables |= {"PATH": path, "PYTHON": "python3"}
    done = subprocess.run([SCRIPT], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_all_parts_are_required_by_default(path_with_stubs: str) -> None:
    parts = ",".join(ALL_PARTS)
    assert _run_ci(path_with_stubs) == [f"check {parts}", f"test {parts}"]


@pytest.mark.parametrize("required", ["cow,root", ""])
def test_the_caller_may_require_fewer_parts(path_with_stubs: str, required: str) -> None:
    assert _run_ci(path_with_stubs, BOUGH_REQUIRE=required) == [f"check {required}", f"test {required}"]


def test_the_workflow_calls_the_script_and_does_not_require_the_contract() -> None:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    assert job["env"]["BOUGH_REQUIRE"].split(",") == [part for part in ALL_PARTS if part != "contract"]
    assert os.access(SCRIPT, os.X_OK)


def test_hooks_are_local() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {entry["repo"] for entry in config["repos"]} == {"local"}
    assert {hook["language"] for entry in config["repos"] for hook in entry["hooks"]} == {"system"}
