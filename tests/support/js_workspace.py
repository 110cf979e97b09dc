"""The JavaScript workspace: the first test that needs it installs and builds it. Runs its tools as users do.

Uses Node from PATH if it is new enough, else from the PyPI package that the engine uses to fetch Postgres.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bough.config import default_cache
from bough.engine.local.installs import npm as npms
from bough.engine.port import EngineError
from support import requirements

FOLDER = Path(__file__).parents[2] / "js"
GET_DB = FOLDER / "get-db"
VITE_PLUGIN = FOLDER / "vite-plugin"
MIN_NODE_VERSION = (20, 19)
INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
TIMEOUT = 240

Result = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Workspace:
    node: str
    npm: tuple[str, ...]
    environment: dict[str, str]

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> Result:
        """Point the tools at a closed port unless a platform is specified, so that no test uses another platform."""
        closed_port = {"INSTANT_BASE_URL": "http://127.0.0.1:9"}
        return subprocess.run(
            command,
            cwd=cwd,
            env={**self.environment, **closed_port, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def run_get_db(self, *arguments: str, cwd: Path, **variables: str) -> Result:
        return self.run(self.node, GET_DB / "bin" / "get-db.js", *arguments, cwd=cwd, **variables)

    def run_vite(self, root: Path, action: str, options: dict[str, Any], *more: str, **variables: str) -> Result:
        driver = VITE_PLUGIN / "test" / "drive.js"
        return self.run(self.node, driver, root, action, json.dumps(options), *more, cwd=root, **variables)


@cache
def build_workspace() -> Workspace:
    """Install and builds the current sources, once; several processes may call this at the same time."""
    workspace = find_tools()
    manifests = [
        FOLDER / ".npmrc",
        FOLDER / "package-lock.json",
        *(folder / "package.json" for folder in (FOLDER, GET_DB, VITE_PLUGIN)),
    ]
    sources = [*manifests, FOLDER / "tsconfig.base.json"]
    for folder in (GET_DB, VITE_PLUGIN):
        sources += [folder / "tsconfig.json", *folder.glob("*.js"), *folder.glob("src/*.ts")]
    with _lock_workspace():
        if not _is_stamped("installed", manifests):
            done = workspace.run(*workspace.npm, *requirements.NPM_CI, cwd=FOLDER)
            requirements.require(
                "node", done.returncode == 0, f"npm could not install the packages of js/: {done.stderr.strip()[-300:]}"
            )
            _stamp("installed", manifests)
        if not _is_stamped("built", sources) or not (GET_DB / "dist").exists() or not (VITE_PLUGIN / "dist").exists():
            done = workspace.run(*workspace.npm, "run", "build", "--workspaces", cwd=FOLDER)
            assert done.returncode == 0, done.stdout + done.stderr
            _stamp("built", sources)
    return workspace


@contextmanager
def _lock_workspace() -> Iterator[None]:
    """Lock the folder itself, because `npm ci` removes everything that is installed in it."""
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def find_tools() -> Workspace:
    node, npm = shutil.which("node"), shutil.which("npm")
    environment = dict(os.environ)
    if node is None or npm is None or _version(node) < MIN_NODE_VERSION:
        return _fetch_node(environment)
    return Workspace(node, (npm,), environment)


def _version(node: str) -> tuple[int, ...]:
    output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(number) for number in re.findall(r"\d+", output)[:2])


def _fetch_node(environment: dict[str, str]) -> Workspace:
    """Fetch Node as the engine does on a machine without npm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        default_cache().mkdir(parents=True, exist_ok=True)
        try:
            fetched = npms.ensure_npm(default_cache(), lambda *_: None)
        except EngineError as error:
            requirements.require("node", False, f"this test needs Node.js {MIN_NODE_VERSION[0]} or later: {error}")
            raise
    node = fetched.command[0]
    path = f"{Path(node).parent}:{environment['PATH']}"
    options = fetched.environment["NODE_OPTIONS"]
    return Workspace(node, fetched.command, {**environment, "PATH": path, "NODE_OPTIONS": options})


def _stamp(step: str, files: Iterable[Path]) -> None:
    (FOLDER / "node_modules" / f".{step}").write_text(_digest(files))


def _is_stamped(step: str, files: Iterable[Path]) -> bool:
    stamp = FOLDER / "node_modules" / f".{step}"
    return stamp.exists() and stamp.read_text() == _digest(files)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(FOLDER)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
