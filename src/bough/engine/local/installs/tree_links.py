"""Start a new install from one that has most of its packages, with hard links instead of copies."""

import os
import shutil
from pathlib import Path

from bough.engine.local.installs import build_record, locks, openssl_conf
from bough.postgres.extensions import extension_files

_WRITTEN_ANEW = (build_record.FILE, locks.INSTALL_FILE, openssl_conf.FILE)


def link_tree(source: Path, target: Path, extensions: Path) -> None:
    """Create the target with the files of the source, which are replaced and never changed.

    Files that stand for an extension which the source lacks are left out.
    """

    def skip(folder: str, names: list[str]) -> list[str]:
        if Path(folder) == source:
            return [name for name in names if name in _WRITTEN_ANEW]
        return _list_unavailable(extensions) if Path(folder) == extensions else []

    shutil.copytree(source, target, symlinks=True, ignore=skip, copy_function=_link)


def _list_unavailable(extensions: Path) -> list[str]:
    controls = [
        path
        for path in extensions.glob("*.control")
        if not extension_files.is_available(path.read_text(errors="replace"))
    ]
    return [path.name for control in controls for path in (control, *extensions.glob(f"{control.stem}--*.sql"))]


def _link(source: str, target: str) -> None:
    os.link(source, target, follow_symlinks=False)
