"""The JavaScript workspace: installed and built once, whoever asks first, and what it makes, run as users run it.

Node is the one in PATH when it is new enough for the tools, else the one from PyPI that also brings Postgres.
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
        """Without a platform to ask, unless one is named: nobody else's shall be."""
        nowhere = {"INSTANT_BASE_URL": "http://127.0.0.1:9"}
        return subprocess.run(
            command,
            cwd=cwd,
            env={**self.environment, **nowhere, **variables},
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
    """Built from what the files say now. Several processes may want that at once."""
    found = find_tools()
    described = [
        FOLDER / ".npmrc",
        FOLDER / "package-lock.json",
        *(folder / "package.json" for folder in (FOLDER, GET_DB, VITE_PLUGIN)),
    ]
    sources = [*described, FOLDER / "tsconfig.base.json"]
    for folder in (GET_DB, VITE_PLUGIN):
        sources += [folder / "tsconfig.json", *folder.glob("*.js"), *folder.glob("src/*.ts")]
    with _lock_workspace():
        if not _is_stamped("installed", described):
            done = found.run(*found.npm, *requirements.NPM_CI, cwd=FOLDER)
            here = done.returncode == 0
            requirements.require(
                "node", here, f"npm could not install the packages of js/: {done.stderr.strip()[-300:]}"
            )
            _stamp("installed", described)
        if not _is_stamped("built", sources) or not (GET_DB / "dist").exists() or not (VITE_PLUGIN / "dist").exists():
            done = found.run(*found.npm, "run", "build", "--workspaces", cwd=FOLDER)
            assert done.returncode == 0, done.stdout + done.stderr
            _stamp("built", sources)
    return found


@contextmanager
def _lock_workspace() -> Iterator[None]:
    """The lock is on the folder itself: `npm ci` begins by removing all that is installed in it."""
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
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(number) for number in re.findall(r"\d+", said)[:2])


def _fetch_node(environment: dict[str, str]) -> Workspace:
    """As the engine fetches it where there is no npm."""
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


def _stamp(what: str, files: Iterable[Path]) -> None:
    (FOLDER / "node_modules" / f".{what}").write_text(_digest(files))


def _is_stamped(what: str, files: Iterable[Path]) -> bool:
    stamp = FOLDER / "node_modules" / f".{what}"
    return stamp.exists() and stamp.read_text() == _digest(files)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(FOLDER)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
