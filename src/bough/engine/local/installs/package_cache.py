"""Download Debian packages in parallel into a folder of the cache.

A file gets its final name when its hash is right, so a repeated attempt downloads only what is missing.
"""

import hashlib
import hmac
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bough.engine.local.debian.mirrors import ExpectedFile, Mirrors
from bough.engine.local.installs.locks import LockedPackage
from bough.engine.local.progress import Progress

_CONNECTIONS = 8


def download(
    mirrors: Mirrors, packages: Sequence[LockedPackage], folder: Path, stage: str, progress: Progress
) -> list[Path]:
    """Return the files of the packages, in their order. The largest are downloaded first."""
    folder.mkdir(parents=True, exist_ok=True)
    total, received, lock = sum(each.file.size for each in packages), 0, threading.Lock()
    is_stopped = threading.Event()

    def count(amount: int) -> None:
        nonlocal received
        with lock:
            received += amount
            progress(stage, received, total)

    def fetch(package: LockedPackage) -> None:
        if not is_stopped.is_set():
            _fetch(mirrors, package.file, folder / package.file.sha256, count)

    progress(stage, 0, total)
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        waiting = [pool.submit(fetch, each) for each in sorted(packages, key=lambda each: -each.file.size)]
        try:
            for each in waiting:
                each.result()
        finally:
            is_stopped.set()
    return [folder / each.file.sha256 for each in packages]


def _fetch(mirrors: Mirrors, expected: ExpectedFile, path: Path, count: Callable[[int], None]) -> None:
    if _is_complete(path, expected):
        count(expected.size)
        return
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        mirrors.fetch(expected, file, count)
    temporary.rename(path)


def _is_complete(path: Path, expected: ExpectedFile) -> bool:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return False
    return hmac.compare_digest(digest, expected.sha256)
