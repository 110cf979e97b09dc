"""Remove a folder whatever its owner did to it: it may be in use still, or deeper than one may go down."""

import errno
import os
import shutil
from pathlib import Path

from bough.engine.local.volumes.copying import opened_folder


def remove_tree(path: Path) -> None:
    while os.path.lexists(path):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            continue  # something vanished meanwhile
        except RecursionError:
            _flatten(path)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            _flatten(path)


def _flatten(path: Path) -> None:
    """Every folder in it becomes a child of it, one after the other, and is emptied."""
    count = 0
    with opened_folder(path) as top:
        while children := _folders(top):
            for child in children:
                with opened_folder(child, top) as folder:
                    for name in _folders(folder):
                        os.rename(name, f"flattened-{count}", src_dir_fd=folder, dst_dir_fd=top)
                        count += 1
                shutil.rmtree(child, dir_fd=top)


def _folders(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
