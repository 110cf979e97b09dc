"""Which parameters the server of an install knows; a server does not start with an unknown one."""

import subprocess
from functools import lru_cache
from pathlib import Path

from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError

_TIMEOUT_SECONDS = 20


def list_parameters(install: Install) -> frozenset[str]:
    server = install.bin / "postgres"
    status = server.stat()
    return _read(server, install.id, tuple(install.environment.items()), (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=32)
def _read(
    server: Path, name: str, environment: tuple[tuple[str, str], ...], _version: tuple[int, int]
) -> frozenset[str]:
    """Run the program once for each version of it."""
    try:
        output = subprocess.run(
            [server, "--describe-config"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        ).stdout
    except OSError as error:
        raise EngineError(f"The server of {name} cannot be started: {error.strerror}.") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").split("\n")
        was_killed = error.returncode < 0
        raise EngineError(f"The server of {name} does not run here: {lines[0][:200]}.", transient=was_killed) from error
    except subprocess.SubprocessError as error:
        raise EngineError(f"The server of {name} does not run here: it did not answer in time.") from error
    return frozenset(line.split(b"\t", 1)[0].decode(errors="replace") for line in output.splitlines())
