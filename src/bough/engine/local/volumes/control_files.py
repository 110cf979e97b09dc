"""The control file of a data folder: what its last server said of itself, unless a tenant wrote something else."""

import struct
from pathlib import Path

from bough.engine.local.tenant_files import TenantFileError, read_file
from bough.postgres.control_file import BYTES, PATH, ControlFile


def read(data: Path) -> ControlFile:
    """An OSError when there is none, or none that can be read."""
    content = read_file(PATH, data, BYTES)
    try:
        return ControlFile.parse(content)
    except (struct.error, ValueError) as error:
        raise TenantFileError(f"The branch's files cannot be used: {PATH} is not what Postgres writes.") from error
