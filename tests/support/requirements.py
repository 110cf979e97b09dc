"""Requirements of tests that a machine may not meet.

A test whose requirement is not met is skipped, or fails if BOUGH_REQUIRE names the requirement, as in CI.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NPM = Path(__file__).parents[1] / "npm"  # published packages that tests use, each folder with its lock file
NPM_CI = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
CONTRACT = Path(__file__).parents[3] / "shared" / "contract"


def require(name: str, is_met: bool, reason: str) -> None:
    if is_met:
        return
    if name in os.environ.get("BOUGH_REQUIRE", "").split(","):
        pytest.fail(f"BOUGH_REQUIRE names {name!r}, but {reason}", pytrace=False)
    pytest.skip(reason)


def require_contract() -> Path:
    require("contract", CONTRACT.is_dir(), "the folder with the published shapes is not next to the project")
    return CONTRACT


def require_root() -> None:
    require("root", os.geteuid() == 0, "this test needs root")


def require_node() -> str:
    npm = shutil.which("npm")
    require("node", npm is not None, "this test needs Node.js with npm on PATH")
    assert npm is not None
    return npm


def require_browser() -> str:
    chromium = shutil.which("chromium")
    require("browser", chromium is not None, "this test needs Chromium on PATH")
    assert chromium is not None
    return chromium


def require_cow() -> None:
    is_met = os.geteuid() == 0 and all(map(shutil.which, ("mkfs.xfs", "mkfs.btrfs")))
    require(
        "cow",
        is_met and Path("/dev/loop-control").exists(),
        "this test needs root, mkfs.xfs, mkfs.btrfs and loop devices for copy-on-write images",
    )


def install_npm_packages(folder: Path, name: str) -> Path:
    """Install the packages of `tests/npm/<name>` at their locked versions, and return the folder `node_modules`.

    The folder is outside the project; npm caches the downloads between runs.
    """
    shutil.copytree(NPM / name, folder, dirs_exist_ok=True)
    command = [require_node(), *NPM_CI]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    require("node", done.returncode == 0, f"npm could not install {name}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"
