"""Row 18: npm packages are pinned by hash, for every architecture, and installed without running their scripts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import js_workspace, requirements

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "js", *sorted(path for path in requirements.NPM.iterdir() if path.is_dir())]
ARCHITECTURES = ("x64", "arm64")


def packages(folder: Path) -> dict[str, dict[str, Any]]:
    """Those that are fetched: neither the folder itself nor what is a link into it."""
    listed: dict[str, dict[str, Any]] = json.loads((folder / "package-lock.json").read_text())["packages"]
    return {name: one for name, one in listed.items() if name.startswith("node_modules/") and not one.get("link")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_package_has_a_hash_and_no_address(folder: Path) -> None:
    listed = packages(folder)
    assert listed
    assert [name for name, one in listed.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, one in listed.items() if "resolved" in one] == []
    assert "://" not in "".join(line for line in _lines(folder) if '"resolved"' in line or '"version"' in line)
    assert "omit-lockfile-registry-resolved=true" in (folder / ".npmrc").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_binaries_of_every_architecture_are_listed(folder: Path) -> None:
    """npm lists only those of the machine at hand when a lock is made beside installed packages."""
    listed = packages(folder)
    optional = {name for one in listed.values() for name in one.get("optionalDependencies", {})}
    for name in optional:
        assert any(each.endswith(f"node_modules/{name}") for each in listed), name
    if folder.name == "js":
        for tool in ("@rolldown/binding-linux", "@typescript/typescript-linux", "lightningcss-linux"):
            for architecture in ARCHITECTURES:
                assert any(name.startswith(f"node_modules/{tool}-{architecture}") for name in listed), (
                    tool,
                    architecture,
                )


def test_the_lock_is_that_of_the_packages_named() -> None:
    """`npm ci` refuses a lock that does not fit; here it looks and fetches nothing."""
    found = js_workspace.find_tools()
    for folder in FOLDERS:
        command = (*found.npm, "ci", "--dry-run", "--ignore-scripts", "--offline", "--no-audit", "--no-fund")
        done = found.run(*command, cwd=folder)
        assert done.returncode == 0, done.stderr


def test_the_locks_are_committed_and_used() -> None:
    for folder in FOLDERS:
        file = folder / "package-lock.json"
        ignored = subprocess.run(["git", "check-ignore", "--quiet", file], cwd=ROOT, check=False)
        assert ignored.returncode == 1, f"git ignores {file}"
    assert requirements.NPM_CI[:2] == ("ci", "--ignore-scripts")
    assert "--ignore-scripts" in js_workspace.INSTALL


def _lines(folder: Path) -> list[str]:
    return (folder / "package-lock.json").read_text().splitlines()
