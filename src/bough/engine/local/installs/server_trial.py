"""Try a server that was built elsewhere, before it is used on this machine."""

import subprocess
from pathlib import Path

from bough.engine.port import EngineError

_TIMEOUT_SECONDS = 30


def check_runs(server: Path, major: int, name: str) -> None:
    """Raise an EngineError if the machine lacks what the server needs, such as a library or a recent kernel."""
    command = [str(server), "--version"]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"The server of {name} does not run here: {error}.", transient=False) from error
    if result.returncode != 0 or f" {major}." not in result.stdout:
        lines = result.stderr.strip().splitlines() or ["no output"]
        raise EngineError(f"The server of {name} does not run here: {lines[0][:200]}", transient=False)
