"""Rule 18: npm packages are pinned by hash, for every architecture, and installed without running their scripts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import js_workspace, requirements

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "js", *sorted(path for path in requirements.NPM.iterdir() if path.is_dir())]
ARCHITECTURES = ("x64", "arm64")


def read_packages(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the downloaded packages, without the folder itself and links into it."""
    packages: dict[str, dict[str, Any]] = json.loads((folder / "package-lock.json").read_text())["packages"]
    return {
        name: package
        for name, package in packages.items()
        if name.startswith("node_modules/") and not package.get("link")
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_package_has_a_hash_and_no_address(folder: Path) -> None:
    packages = read_packages(folder)
    assert packages
    assert [name for name, package in packages.items() if not package.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert "://" not in "".join(
        line for line in _read_lock_lines(folder) if '"resolved"' in line or '"version"' in line
    )
    assert "omit-lockfile-registry-resolved=true" in (folder / ".npmrc").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_binaries_of_every_architecture_are_listed(folder: Path) -> None:
    """npm lists only binaries of the current machine if packages are installed when the lock file is created."""
    packages = read_packages(folder)
    optional = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    for name in optional:
        assert any(path.endswith(f"node_modules/{name}") for path in packages), name
    if folder.name == "js":
        for tool in ("@rolldown/binding-linux", "@typescript/typescript-linux", "lightningcss-linux"):
            for architecture in ARCHITECTURES:
                assert any(name.startswith(f"node_modules/{tool}-{architecture}") for name in packages), (
                    tool,
                    architecture,
                )


def test_the_lock_is_that_of_the_packages_named() -> None:
    """`npm ci` rejects a lock file that does not match; with --dry-run it downloads nothing."""
    tools = js_workspace.find_tools()
    for folder in FOLDERS:
        command = (*tools.npm, "ci", "--dry-run", "--ignore-scripts", "--offline", "--no-audit", "--no-fund")
        result = tools.run(*command, cwd=folder)
        assert result.returncode == 0, result.stderr


def test_the_locks_are_committed_and_used() -> None:
    for folder in FOLDERS:
        file = folder / "package-lock.json"
        ignored = subprocess.run(["git", "check-ignore", "--quiet", file], cwd=ROOT, check=False)
        assert ignored.returncode == 1, f"git ignores {file}"
    assert requirements.NPM_CI[:2] == ("ci", "--ignore-scripts")
    assert "--ignore-scripts" in js_workspace.INSTALL


def _read_lock_lines(folder: Path) -> list[str]:
    return (folder / "package-lock.json").read_text().splitlines()
