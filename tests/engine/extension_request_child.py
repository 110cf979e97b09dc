"""Adds an extension in a process that kills itself at a given stage. Run by `test_extension_requests.py`."""

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from bough.config import Settings
from bough.engine.local.installs import debian_build, extension_requests, package_cache
from bough.engine.local.installs.extension_requests import Request
from support.extension_builds import EXTENSION, link_files

HOME, CACHE, PLAN, DOWNLOADS, STAGE = sys.argv[1:6]
download = package_cache.download


def plan(*_arguments: Any, **_options: Any) -> Any:
    return pickle.loads(Path(PLAN).read_bytes())


def download_known(mirrors: Any, packages: Any, target: Path, *arguments: Any) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    if STAGE != "downloading":
        link_files(Path(DOWNLOADS), target)
    return download(mirrors, packages, target, *arguments)


def report(stage: str, done: int, _total: int) -> None:
    if stage.startswith(STAGE) and done:
        os.kill(os.getpid(), signal.SIGKILL)


def check(_changes: object) -> None:
    """The last step before the selection is written."""
    if STAGE == "selecting":
        os.kill(os.getpid(), signal.SIGKILL)


setattr(debian_build, "plan_with", plan)  # noqa: B010
setattr(package_cache, "download", download_known)  # noqa: B010
settings = Settings(home=Path(HOME), cache=Path(CACHE))
extension_requests.add(Request(settings=settings, progress=report, check=check), EXTENSION)
