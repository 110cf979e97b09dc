"""The exact version of a Postgres server of the operating system."""

import re
import subprocess
from functools import lru_cache
from pathlib import Path

_TIMEOUT_SECONDS = 10
_VERSION = re.compile(rb"\(PostgreSQL\) (\d+\.\d+)")


def read_version(server: Path) -> str | None:
    """Return a version such as 15.20, or None if the program does not say it."""
    status = server.stat()
    return _read(server, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=32)
def _read(server: Path, _mtime_ns: int, _size: int) -> str | None:
    """Run the program once for each version of it."""
    try:
        output = subprocess.run(
            [server, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(output)
    return found[1].decode() if found else None
