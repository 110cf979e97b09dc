"""Downloads the newest minor versions of Postgres, if the operator has turned that on.

It runs `bough postgres update` as a program of its own, so it does what the command does and no more, and a slow mirror
holds up nothing. The command changes nothing if there is nothing new or anything fails.
"""

import asyncio
import json
import random
import sys
from datetime import timedelta

from bough import clock, log
from bough.config import Settings
from bough.control.platform import update_problems
from bough.control.platform.update_problems import UpdateProblem

TIMEOUT_SECONDS = 3600.0
MAX_OUTPUT_BYTES = 64 * 1024
RETRY_HOURS = 1.0  # after a failure
_FIRST_DELAY = timedelta(minutes=10)  # after a start of control, at most
_JITTER = 0.2  # of the interval

logger = log.get_logger(component="tasks")


class UpdatePostgres:
    interval = 60.0

    def __init__(self, settings: Settings, command: tuple[str, ...] | None = None) -> None:
        self._settings = settings
        self._command = command or (
            *(sys.executable, "-P", "-m", "bough.cli.main", "postgres", "update", "--json"),
            *("--home", str(settings.home)),
        )
        self._due_at = clock.now() + random.random() * _FIRST_DELAY  # noqa: S311  so that not all homes ask at once

    async def run(self) -> str:
        if not self._settings.postgres_auto_update or clock.now() < self._due_at:
            return ""
        hours = self._settings.postgres_auto_update_hours * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
        code, output, errors = await self._run_command()
        if code != 0:
            return self._fail(errors, min(hours, RETRY_HOURS))
        self._due_at = clock.now() + timedelta(hours=hours)
        update_problems.write(self._settings, None)
        return _describe(output)

    def _fail(self, errors: str, hours: float) -> str:
        lines = [line for line in errors.splitlines() if line.strip()] or ["the command ended without a message"]
        self._due_at = clock.now() + timedelta(hours=hours)
        update_problems.write(self._settings, UpdateProblem(at=clock.now().isoformat(), message=lines[-1]))
        logger.error("postgres_update_failed", reason=lines[-1])
        return ""

    async def _run_command(self) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                output, errors = await process.communicate()
        except TimeoutError:
            return 1, "", f"It did not end within {TIMEOUT_SECONDS / 60:g} minutes."
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode or 0, _decode(output), _decode(errors)


def _decode(output: bytes) -> str:
    return output[-MAX_OUTPUT_BYTES:].decode(errors="replace")


def _describe(output: str) -> str:
    """Return what the command changed, or nothing."""
    try:
        changes = json.loads(output)["changes"]
        return ", ".join(f"updated {each['pin']} to Postgres {each['version']}" for each in changes)
    except (ValueError, KeyError, TypeError):
        return ""
