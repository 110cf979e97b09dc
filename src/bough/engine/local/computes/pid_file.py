"""Reads `postmaster.pid` of a data directory.

A tenant's code can write it, so its contents are hints: see `postmaster` for how a pid is verified.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.tenant_files import read_file

PID_FILE_NAME = "postmaster.pid"
READY = "ready"
STOPPING = "stopping"
_MAX_PID_FILE_BYTES = 4096
_PID = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class PidFile:
    """The contents of postmaster.pid: pid, socket folder and status."""

    pid: int
    socket_folder: str
    status: str

    @classmethod
    def read(cls, data: Path) -> Self | None:
        try:
            lines = read_file(PID_FILE_NAME, data, _MAX_PID_FILE_BYTES).decode(errors="replace").splitlines()
        except OSError:  # missing, or replaced by something that is not a file
            return None
        lines += [""] * (8 - len(lines))
        if not _PID.fullmatch(lines[0]):
            return None
        return cls(int(lines[0]), lines[4], lines[7].strip())
