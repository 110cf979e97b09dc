"""Run a module of `tests/engine` as a process that drops root and prints a report."""

import os
import subprocess
import sys
from pathlib import Path

from bough.config import Settings, default_cache

TESTS = Path(__file__).parents[1]


def run_module(module: str, settings: Settings) -> list[str]:
    """Return its output. Its working folder and its environment do not depend on the test."""
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
