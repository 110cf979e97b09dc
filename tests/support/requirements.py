"""Parts a test needs that a machine may lack.

Without the part a test is skipped with a sentence; where BOUGH_REQUIRE names it, as CI does, it fails.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NPM = Path(__file__).parents[1] / "npm"  # published packages that tests drive, each folder with its lock
NPM_CI = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
CONTRACT = Path(__file__).parents[3] / "shared" / "contract"


def require(part: str, present: bool, sentence: str) -> None:
    if present:
        return
    if part in os.environ.get("BOUGH_REQUIRE", "").split(","):
        pytest.fail(f"BOUGH_REQUIRE names {part!r}, but {sentence}", pytrace=False)
    pytest.skip(sentence)


def require_contract() -> Path:
    require("contract", CONTRACT.is_dir(), "the folder with the published shapes is not beside the project")
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
    present = os.geteuid() == 0 and all(map(shutil.which, ("mkfs.xfs", "mkfs.btrfs")))
    require(
        "cow",
        present and Path("/dev/loop-control").exists(),
        "this test needs root, mkfs.xfs, mkfs.btrfs and loop devices for copy-on-write images",
    )


def install_npm_packages(folder: Path, name: str) -> Path:
    """Those of `tests/npm/<name>`, exactly as its lock has them, installed where Node finds them.

    It is outside the project; the files stay in npm's own cache between runs.
    """
    shutil.copytree(NPM / name, folder, dirs_exist_ok=True)
    command = [require_node(), *NPM_CI]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    require("node", done.returncode == 0, f"npm could not install {name}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"
