"""Logs that grew too long are cut, a few at a time: the platform's own and those of computes."""

import asyncio
import heapq
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bough import log, log_rotation
from bough.config import Settings

BATCH_SIZE = 8  # other tasks wait for this one, and packing a piece takes a tenth of a second

logger = log.get_logger(component="tasks")


class RotateLogs:
    interval = 15.0  # a compute that fails at every statement writes a great deal in a minute

    def __init__(self, settings: Settings) -> None:
        self._folders = (settings.logs, settings.compute_logs)
        self._longest = settings.log_file_bytes
        self._kept = settings.log_files_kept

    async def run(self) -> str:
        count = await asyncio.to_thread(self._rotate)
        return f"cut {count} long logs" if count else ""

    def _rotate(self) -> int:
        return sum(self._cut(path) for _, path in heapq.nlargest(BATCH_SIZE, self._too_long()))

    def _too_long(self) -> Iterator[tuple[int, Path]]:
        for folder in self._folders:
            for path in folder.glob("*.log"):
                with suppress(FileNotFoundError):
                    size = path.lstat().st_size
                    if size > self._longest:
                        yield size, path

    def _cut(self, path: Path) -> bool:
        """One that cannot be cut does not keep the others from it."""
        try:
            return log_rotation.rotate(path, self._longest, self._kept)
        except OSError as error:
            logger.error("log_not_cut", path=str(path), reason=str(error))
            return False
