"""Caches with chosen Postgres installs."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.config import default_cache
from bough.engine.local.installs.installs import Install


@contextmanager
def temporary_cache() -> Iterator[Path]:
    """Yield an empty cache. It is on the file system of the default cache, for hard links."""
    with tempfile.TemporaryDirectory(dir=default_cache(), prefix="test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def copy_cache(*installs: Install) -> Iterator[Path]:
    """Yield a cache with these installs only."""
    with temporary_cache() as folder:
        for install in installs:
            add_install(folder, install)
        yield folder


def add_install(cache: Path, install: Install) -> None:
    """Hard links instead of symbolic ones, so that processes run from the cache itself."""
    (cache / "postgres").mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["cp", "-al", str(install.root), str(cache / "postgres")], check=True)
