"""A test's other process: a module of `tests/engine` that gives up being root and tells what it met."""

import os
import subprocess
import sys
from pathlib import Path

from bough.config import Settings, default_cache

TESTS = Path(__file__).parents[1]


def run_module(module: str, settings: Settings) -> list[str]:
    """What it prints. Where it stands and what it inherits are no test's own."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", module, str(settings.home), str(default_cache())],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
