"""Rotates logs that grew too large, a few at a time: those of the platform and those of computes."""

import asyncio
import heapq
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bough import log, log_rotation
from bough.config import Settings

BATCH_SIZE = 8  # other tasks wait for this one, and compressing a file takes a tenth of a second

logger = log.get_logger(component="tasks")


class RotateLogs:
    interval = 15.0  # a compute that fails at every statement writes a lot within a minute

    def __init__(self, settings: Settings) -> None:
        self._folders = (settings.logs, settings.compute_logs)
        self._max_bytes = settings.log_file_bytes
        self._max_files = settings.log_files_kept

    async def run(self) -> str:
        count = await asyncio.to_thread(self._rotate)
        return f"rotated {count} logs" if count else ""

    def _rotate(self) -> int:
        return sum(self._rotate_one(path) for _, path in heapq.nlargest(BATCH_SIZE, self._find_large()))

    def _find_large(self) -> Iterator[tuple[int, Path]]:
        for folder in self._folders:
            for path in folder.glob("*.log"):
                with suppress(FileNotFoundError):
                    size = path.lstat().st_size
                    if size > self._max_bytes:
                        yield size, path

    def _rotate_one(self, path: Path) -> bool:
        """Rotate one log. A failure does not affect the others."""
        try:
            return log_rotation.rotate(path, self._max_bytes, self._max_files)
        except OSError as error:
            logger.error("log_not_rotated", path=str(path), reason=str(error))
            return False
