"""Copy a folder tree fast: the kernel moves the bytes, several files at a time."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bough.engine.local.sandbox import Identity

WORKERS = max(2, min(8, os.cpu_count() or 2))
_PIECE = 64 * 1024 * 1024


def copy_tree(source: Path, target: Path, owner: Identity) -> None:
    """`target`, which must not exist, becomes a copy of `source` that only `owner` may open."""
    files: list[tuple[Path, Path]] = []
    for parent, folders, names in os.walk(source):
        here = Path(parent)
        there = target / here.relative_to(source)
        _make_folder(there, owner)
        links = [name for name in folders if (here / name).is_symlink()]
        files += [(here / name, there / name) for name in (*names, *links)]
    with ThreadPoolExecutor(WORKERS, "copy") as threads:
        shares = [files[start::WORKERS] for start in range(WORKERS)]
        for done in [threads.submit(_copy_files, share, owner) for share in shares]:
            done.result()


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


def _make_folder(path: Path, owner: Identity) -> None:
    path.mkdir(mode=0o700)
    if not owner.is_ours:
        os.chown(path, owner.uid, owner.gid)


def _copy_files(pairs: Sequence[tuple[Path, Path]], owner: Identity) -> None:
    for source, target in pairs:
        if source.is_symlink():
            target.symlink_to(source.readlink())
            os.chown(target, owner.uid, owner.gid, follow_symlinks=False)
        else:
            _copy_file(source, target, owner)


def _copy_file(source: Path, target: Path, owner: Identity) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not owner.is_ours:
                os.fchown(writing, owner.uid, owner.gid)
            offset = 0
            while sent := os.sendfile(writing, reading, offset, _PIECE):
                offset += sent
        finally:
            os.close(writing)
    finally:
        os.close(reading)
